"""Approaches 1 and 2: exact where they should be, silent where the runs do not allow them."""

import numpy as np
import pytest

from nextok.scaling import Fit, ParametricLaw, runs_of
from nextok.scaling.envelopes import approaches, envelope, isoflop
from nextok.scaling.runs import Runs

from .conftest import KNOWN, known_grid

BUDGETS = (2e12, 6e12, 2e13, 6e13)


def isoflop_runs(law: ParametricLaw, spread: float = 4.0, off: float = 1.0) -> Runs:
    C_R = np.repeat(BUDGETS, 7)
    sizes = [off * law.optimum(C)[0] * np.geomspace(1 / spread, spread, 7) for C in BUDGETS]
    N_R = np.concatenate(sizes)
    return runs_of(N_R, C_R / (6 * N_R), law.loss(N_R, C_R / (6 * N_R)))  # type: ignore[arg-type]


@pytest.mark.parametrize("akima", [False, True])
def test_equal_exponents_make_both_exact(akima: bool) -> None:
    law = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.36, beta=0.36)
    found = isoflop(isoflop_runs(law), akima=akima)
    assert found.a == pytest.approx(0.5, abs=1e-6)
    assert [C for C, _ in found.minima] == pytest.approx(BUDGETS)
    for C, N in found.minima:
        assert pytest.approx(law.optimum(C)[0], rel=1e-3) == N


def test_a_parabola_off_its_centre_is_biased_and_a_spline_is_not() -> None:
    law = ParametricLaw(E=1.2, A=90.0, B=2000.0, alpha=0.25, beta=0.45)
    runs = isoflop_runs(law, spread=8, off=2.0)
    misses = []
    for akima in (False, True):
        misses.append(np.mean([abs(np.log(N / law.optimum(C)[0])) for C, N in isoflop(runs, akima=akima).minima]))
    assert misses[1] < misses[0] / 2


@pytest.mark.parametrize("akima", [False, True])
def test_a_minimum_at_the_edge_is_left_out_with_its_reason(akima: bool) -> None:
    found = isoflop(isoflop_runs(KNOWN, off=8.0), akima=akima)
    assert found.a is None
    assert any(word in found.left_out[0] for word in ("outside", "edge", "no minimum"))


def test_the_envelope_of_many_sizes_follows_the_optimum() -> None:
    N_R, D_R = (each.ravel() for each in np.meshgrid(np.geomspace(1e4, 3e6, 12), np.geomspace(1e5, 1e9, 12)))
    found = envelope(runs_of(N_R, D_R, KNOWN.loss(N_R, D_R)))  # type: ignore[arg-type]
    assert found.a == pytest.approx(KNOWN.a, abs=0.02)
    assert len(found.minima) >= 6


def test_repeated_seeds_are_one_point() -> None:
    runs = isoflop_runs(KNOWN)
    twice = runs_of(*(np.tile(each, 2) for each in (runs.N, runs.D, runs.loss)), np.repeat([0, 1], len(runs)))  # type: ignore[arg-type]
    assert isoflop(twice, akima=True).a == pytest.approx(isoflop(runs, akima=True).a)


def test_runs_that_allow_neither_are_told_so() -> None:
    for approach in approaches(known_grid(sizes=3, lengths=3)):
        assert approach.a is None
        assert approach.left_out


def test_published_runs_agree_within_their_errors(published_fit: Fit) -> None:
    for approach in approaches(published_fit.runs):
        assert approach.a is not None and approach.standard_error is not None
        assert abs(approach.a - 0.5139) < 2 * approach.standard_error
