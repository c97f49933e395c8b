"""Published constants against what the papers and their replications print, and their runs against the data."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.scaling import ParametricLaw
from nextok.scaling.published import (
    BESIROGLU,
    BESIROGLU_SPREAD,
    CHINCHILLA_3,
    CHINCHILLA_3_PRINTED,
    CHINCHILLA_RUNS,
    CHINCHILLA_TABLE_3,
    CHINCHILLA_TABLE_A3,
    MUENNIGHOFF_BASE,
)

GOPHER = 5.76e23


def tokens_a_parameter(law: ParametricLaw, C: float) -> float:
    N, D = law.optimum(C)
    return D / N


@pytest.mark.parametrize(
    ("law", "a", "N", "ratio"),
    [
        (CHINCHILLA_3_PRINTED, 0.4516, 32.2e9, 92.6),
        (CHINCHILLA_3, 0.4565, 40.4e9, 58.9),  # the 40B that the paper itself names
        (BESIROGLU, 0.5126, 72.2e9, 18.4),
    ],
)
def test_split_of_gophers_compute(law: ParametricLaw, a: float, N: float, ratio: float) -> None:
    found_N, found_D = law.optimum(GOPHER)
    assert law.a == pytest.approx(a, abs=5e-5)
    assert found_N == pytest.approx(N, rel=2e-3)
    assert found_D / found_N == pytest.approx(ratio, rel=2e-3)


@pytest.mark.parametrize(
    ("C", "printed", "unrounded", "besiroglu"),
    [(1e14, 10.5, 8.4, 32.4), (1e17, 20.5, 15.2, 27.2), (1e20, 40.1, 27.8, 22.9), (GOPHER, 92.6, 58.9, 18.4)],
)
def test_tokens_a_parameter_at_every_scale(C: float, printed: float, unrounded: float, besiroglu: float) -> None:
    for law, ratio in ((CHINCHILLA_3_PRINTED, printed), (CHINCHILLA_3, unrounded), (BESIROGLU, besiroglu)):
        assert tokens_a_parameter(law, C) == pytest.approx(ratio, abs=0.06)


def test_past_the_optimum_more_data_loses() -> None:
    N, D = CHINCHILLA_3.optimum(1e20)
    losses = [CHINCHILLA_3.loss(N * factor, D / factor) for factor in (1 / 4, 1 / 2, 1, 2, 4)]
    assert losses == pytest.approx([2.637, 2.574, 2.553, 2.573, 2.633], abs=5e-4)


@pytest.mark.parametrize(
    ("law", "percent"),
    [
        (CHINCHILLA_3, (6, 8, 10, 6, 14, 19, 15, 15, 18)),
        (CHINCHILLA_3_PRINTED, (57, 63, 76, 77, 94, 105, 101, 106, 122)),
    ],
)
def test_tokens_of_table_a3_are_missed_by_this_much(law: ParametricLaw, percent: tuple[float, ...]) -> None:
    found = [
        100 * (law.optimum(law.compute_for_parameters(N))[1] / tokens - 1) for N, *_, tokens in CHINCHILLA_TABLE_A3
    ]
    assert found == pytest.approx(list(percent), abs=0.6)


def test_unrounded_constants_come_within_three_percent_of_the_first_row() -> None:
    assert CHINCHILLA_3.optimum(2.21e19) == pytest.approx((389e6, 9.47e9), rel=2e-3)  # the table has 400M and 9.2B
    assert CHINCHILLA_3_PRINTED.optimum(2.21e19)[1] == pytest.approx(11.3e9, rel=5e-3)


def test_tables_spend_six_n_d_but_for_their_rounding() -> None:
    rows = [(N, C, D) for N, C, D in CHINCHILLA_TABLE_3]
    rows += [(N, C, D) for N, C, D, *_ in CHINCHILLA_TABLE_A3] + [(N, C, D) for N, *_, C, D in CHINCHILLA_TABLE_A3]
    assert all(math.isclose(6 * N * D, C, rel_tol=0.05) for N, C, D in rows)


def test_muennighoffs_base_has_one_exponent_and_twenty_tokens_a_parameter() -> None:
    assert MUENNIGHOFF_BASE.a == 0.5
    assert tokens_a_parameter(MUENNIGHOFF_BASE, 1e20) == pytest.approx(1 / 0.051, rel=2e-3)
    constants = [MUENNIGHOFF_BASE.E, MUENNIGHOFF_BASE.A, MUENNIGHOFF_BASE.B]
    assert constants == pytest.approx([1.8691, 520.82, 1487.72], rel=3e-5)


def test_the_runs_lie_where_the_data_say(shared_data: Callable[[str], Path]) -> None:
    with shared_data("chinchilla_epoch_245.csv").open(encoding="utf-8") as stream:
        rows = [(float(row["Model Size"]), float(row["Training FLOP"])) for row in csv.DictReader(stream)]
    N, C, D = [N for N, _ in rows], [C for _, C in rows], [C / (6 * N) for N, C in rows]
    for values, bounds in ((N, CHINCHILLA_RUNS.N), (D, CHINCHILLA_RUNS.D), (C, CHINCHILLA_RUNS.C)):
        assert (min(values), max(values)) == pytest.approx(bounds, rel=5e-3)


def test_the_spread_of_the_refit_is_the_published_interval() -> None:
    N, D = BESIROGLU.optimum(GOPHER)
    low, high = BESIROGLU_SPREAD.interval(N, GOPHER)
    ratios = [GOPHER / (6 * end**2) for end in (high, low)]
    assert ratios == pytest.approx([9.6, 28.9], rel=0.2)  # 10 to 90 % over 400 resamples
    assert BESIROGLU_SPREAD.sd_a == pytest.approx(0.0204, rel=0.1)
