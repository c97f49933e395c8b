"""Repeated text: the two published values to the last digit, the value of a token, and the split it leads to."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import InputError
from nextok.scaling import RepeatedData
from nextok.scaling.published import MUENNIGHOFF_BASE

LAW = RepeatedData(base=MUENNIGHOFF_BASE, unique_tokens=25e9)


def test_published_losses_to_the_last_digit() -> None:
    assert LAW.loss(6.34e9, 242e9) == 2.2256440889984477
    assert LAW.loss(8.67e9, 178e9) == 2.2269634075087867


@pytest.mark.parametrize(
    ("epochs", "percent"), [(1, 100), (2, 98.4), (4, 93.1), (8, 82.8), (16, 66.1), (40, 37.9), (100, 16.4)]
)
def test_value_of_a_token(epochs: float, percent: float) -> None:
    assert 100 * LAW.worth(epochs) == pytest.approx(percent, abs=0.05)


def test_parameters_for_unique_text_are_a_twentieth() -> None:
    assert LAW.parameters_for_unique / 25e9 == pytest.approx(0.051, abs=5e-4)


def test_fresh_text_is_the_base_itself() -> None:
    assert LAW.effective_tokens(10e9) == 10e9
    assert LAW.effective_parameters(1e9) == 1e9
    assert LAW.loss(1e9, 10e9) == MUENNIGHOFF_BASE.loss(1e9, 10e9)
    assert LAW.optimum(1e20) == MUENNIGHOFF_BASE.optimum(1e20)


def test_repetition_asks_for_more_epochs_and_a_smaller_model() -> None:
    repeated, fresh = LAW.optimum(1e22), MUENNIGHOFF_BASE.optimum(1e22)
    assert repeated[0] < fresh[0] and repeated[1] > fresh[1]
    assert math.isclose(6 * math.prod(repeated), 1e22, rel_tol=1e-12)
    assert LAW.loss(*repeated) < LAW.loss(*fresh)


@settings(max_examples=20)
@given(st.floats(20.5, 23))
def test_no_other_split_does_better_and_the_budget_is_found_again(decades: float) -> None:
    C = 10**decades
    N, D = LAW.optimum(C)
    assert all(LAW.loss(N, D) <= LAW.loss(N * factor, D / factor) for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2))
    assert LAW.compute_for_parameters(N) == pytest.approx(C, rel=1e-3)
    assert LAW.compute_for_tokens(D) == pytest.approx(C, rel=1e-3)


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_worth_falls_and_effective_tokens_rise_to_a_bound(epochs: float, more: float) -> None:
    assert LAW.worth(epochs) >= LAW.worth(epochs + more)
    assert LAW.effective_tokens(25e9 * epochs) <= LAW.effective_tokens(25e9 * (epochs + more)) < 25e9 * 16.4


@pytest.mark.parametrize("tokens", [0.0, -1.0, math.inf, math.nan])
def test_no_text_is_refused(tokens: float) -> None:
    with pytest.raises(InputError, match="unique tokens"):
        RepeatedData(base=MUENNIGHOFF_BASE, unique_tokens=tokens)
