"""Ratio, power and table: hand values, the budget spent, and the ways back to it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import InputError
from nextok.scaling.frontiers import Frontier, Power, Ratio, Table

RATIO = Ratio(ratio=20.0)
POWER = Power(scale=1.3e9, unit=8.64e19, a=0.73)
TABLE = Table(rows=((1e6, 1e14), (1e7, 1e16), (1e9, 1e19)))

budgets = st.floats(10, 26).map(lambda decades: 10**decades)
frontiers = st.sampled_from([RATIO, POWER, TABLE])


def test_twenty_to_one_is_its_closed_form() -> None:
    assert RATIO.optimum(5.88e23) == pytest.approx((70e9, 1.4e12), rel=1e-12)
    assert RATIO.compute_for_parameters(1e9) == pytest.approx(1.2e20, rel=1e-12)
    assert RATIO.compute_for_tokens(20e9) == pytest.approx(1.2e20, rel=1e-12)


@given(budgets)
def test_twenty_to_one_is_the_lessons_algebra(C: float) -> None:
    assert RATIO.optimum(C) == pytest.approx((math.sqrt(C / 120), math.sqrt(10 * C / 3)), rel=1e-12)


def test_a_power_has_its_scale_at_its_unit() -> None:
    assert POWER.optimum(8.64e19)[0] == pytest.approx(1.3e9)
    assert POWER.optimum(8.64e20)[0] == pytest.approx(1.3e9 * 10**0.73)


def test_a_table_is_itself_at_its_rows_and_straight_between_and_beyond() -> None:
    for N, C in TABLE.rows:
        assert TABLE.optimum(C)[0] == pytest.approx(N)
    assert TABLE.optimum(1e15)[0] == pytest.approx(10**6.5)
    assert TABLE.optimum(1e12)[0] == pytest.approx(1e5)  # slope 1/2 of the first pair
    assert TABLE.optimum(1e22)[0] == pytest.approx(1e11)  # slope 2/3 of the last


@given(frontiers, budgets)
def test_the_budget_is_spent_and_found_again(frontier: Frontier, C: float) -> None:
    N, D = frontier.optimum(C)
    assert math.isclose(6 * N * D, C, rel_tol=1e-12)
    assert frontier.compute_for_parameters(N) == pytest.approx(C, rel=1e-9)
    assert frontier.compute_for_tokens(D) == pytest.approx(C, rel=1e-9)


@given(frontiers, budgets)
def test_more_compute_means_more_of_both(frontier: Frontier, C: float) -> None:
    (N, D), (more_N, more_D) = frontier.optimum(C), frontier.optimum(3 * C)
    assert more_N > N and more_D > D


@pytest.mark.parametrize("frontier", [RATIO, POWER, TABLE])
@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_no_budget_is_refused(frontier: Frontier, wrong: float) -> None:
    for asked in (frontier.optimum, frontier.compute_for_parameters, frontier.compute_for_tokens):
        with pytest.raises(InputError, match="not above 0"):
            asked(wrong)
