"""What cannot be told is said in words: lines, too few sizes, terms that vanish, resamples that disagree."""

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.scaling import FitOptions, ParametricLaw, fit, runs_of
from nextok.scaling.bootstrap import Bootstrap
from nextok.scaling.identify import reasons_in_bootstrap, reasons_in_design, reasons_in_fit, require_enough

from .conftest import KNOWN, known_grid

SIZES = np.geomspace(3e4, 1e6, 8)


def following(N: np.ndarray, D: np.ndarray) -> object:
    return runs_of(N, D, KNOWN.loss(N, D))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("D", "said"),
    [
        (20 * SIZES, "one line"),
        (1e12 / SIZES, "one line"),
        (20 * SIZES * np.tile([0.97, 1.03], 4), "one line"),
        (np.full(8, 1e6), "1 distinct lengths"),
        (np.tile([1e6, 1e7], 4), "2 distinct lengths"),
    ],
)
def test_places_that_cannot_tell_the_constants(D: np.ndarray, said: str) -> None:
    found = fit(following(SIZES, D), FitOptions(resamples=0))  # type: ignore[arg-type]
    assert found.law is None
    assert said in found.not_identified[0]
    with pytest.raises(InputError, match="no law to write"):
        found.fitted_law(counting="matmul")


def test_too_few_sizes() -> None:
    reasons = reasons_in_design(following(np.full(8, 1e5), SIZES * 20))  # type: ignore[arg-type]
    assert reasons == ["the runs have 1 distinct sizes; 3 are needed"]


def test_a_grid_can_tell() -> None:
    assert reasons_in_design(known_grid(sizes=3, lengths=3)) == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_runs_are_refused(count: int) -> None:
    runs = following(SIZES[:count], 20 * SIZES[:count])
    with pytest.raises(InputError, match=f"there are {count} finished runs"):
        require_enough(runs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"E": 0.0}, "E ran to 0"),
        ({"A": 1e-9}, "A ran to 0"),
        ({"B": 1e-9}, "B ran to 0"),
        ({"alpha": 3.0}, "alpha = 3"),
        ({"beta": 0.01}, "beta = 0.01"),
    ],
)
def test_a_fit_at_a_bound_is_no_law(changes: dict[str, float], said: str) -> None:
    constants = {"E": 1.2, "A": 90.0, "B": 300.0, "alpha": 0.38, "beta": 0.36} | changes
    assert said in " ".join(reasons_in_fit(ParametricLaw(**constants), known_grid()))
    assert reasons_in_fit(KNOWN, known_grid()) == []
    assert len(reasons_in_fit(None, known_grid())) == 1


def test_resamples_that_disagree() -> None:
    runs = known_grid()
    agreeing = Bootstrap(by="run", laws=(KNOWN,) * 100, without_law=2)
    assert reasons_in_bootstrap(agreeing, runs) == []
    assert "13%" in reasons_in_bootstrap(Bootstrap(by="run", laws=(KNOWN,) * 100, without_law=15), runs)[0]
    other = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.08, beta=0.36)
    split = Bootstrap(by="run", laws=(KNOWN, other) * 50, without_law=0)
    assert "alpha anywhere between 0.08 and 0.38" in reasons_in_bootstrap(split, runs)[0]
    assert reasons_in_bootstrap(Bootstrap(by="run", laws=(), without_law=9), runs) == ["no resample gives a law"]


def test_noise_that_drowns_the_law_is_not_given_a_number() -> None:
    found = fit(known_grid(noise=0.2), FitOptions(resamples=100))
    assert found.law is None
    assert found.not_identified
