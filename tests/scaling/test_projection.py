"""Variable projection: exact on exact runs, non-negative, and the published least-squares law."""

import numpy as np
import pytest
from scipy.optimize import nnls

from nextok.scaling.objective import Points
from nextok.scaling.projection import least_squares, project, starts
from nextok.scaling.runs import Runs, runs_of

from .conftest import KNOWN, known_grid


def test_a_surface_without_noise_is_recovered_to_a_millionth() -> None:
    runs = known_grid()
    law = Points.of(runs).law(least_squares(runs, Points.of(runs)))
    assert law is not None
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(law, name) == pytest.approx(getattr(KNOWN, name), rel=1e-6)


def test_amounts_are_those_of_non_negative_least_squares() -> None:
    generator = np.random.default_rng(3)
    runs = runs_of(generator.uniform(1, 9, 20), generator.uniform(1, 9, 20), generator.uniform(1, 9, 20))
    points = Points.of(runs)
    exponents_G2 = generator.uniform(0.02, 2.5, (40, 2))
    found = project(exponents_G2, runs, points)
    assert (found.amounts >= 0).all()
    assert (found.amounts == 0).any(), "a bound should be reached somewhere"
    for (alpha, beta), amounts_3, squares in zip(exponents_G2, found.amounts, found.squares, strict=True):
        X = np.stack([np.ones(20), np.exp(-alpha * points.n), np.exp(-beta * points.d)], axis=1)
        expected, norm = nnls(X, runs.loss)
        np.testing.assert_allclose(amounts_3, expected, atol=1e-7)
        assert squares == pytest.approx(norm**2)


def test_published_runs_have_the_published_least_squares_law(published: Runs) -> None:
    runs = published.without_highest(5)
    law = Points.of(runs).law(least_squares(runs, Points.of(runs)))
    assert law is not None
    assert pytest.approx((1.883, 568, 7582), rel=1e-3) == (law.E, law.A, law.B)
    assert (law.alpha, law.beta, law.a) == pytest.approx((0.358, 0.428, 0.545), abs=6e-4)


def test_starts_are_spread_and_finite() -> None:
    runs = known_grid()
    theta_S5 = starts(runs, Points.of(runs))
    assert theta_S5.shape == (64, 5)
    assert np.isfinite(theta_S5).all()
    assert len(np.unique(theta_S5[:, 3].round(6))) == 8
