"""The minimizer: at the published optimum, together as alone, and where a library stops early."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from nextok.scaling.minimize import minimize
from nextok.scaling.objective import Points, Samples, objective, slopes
from nextok.scaling.projection import starts
from nextok.scaling.runs import Runs

from .conftest import KNOWN, known_grid


def test_it_comes_to_rest_where_the_gradient_is_zero() -> None:
    runs = known_grid(noise=0.01)
    points, ones = Points.of(runs), np.ones((1, len(runs)))
    found = minimize(points.theta(KNOWN)[None], points, Samples.of(runs, ones))
    assert found.settled.all()
    scale = np.abs(slopes(points.theta(KNOWN)[None], points, Samples.of(runs, ones)).gradient).max()
    assert np.abs(slopes(found.theta, points, Samples.of(runs, ones)).gradient).max() < 1e-5 * scale


def test_rows_do_not_see_each_other() -> None:
    runs = known_grid(noise=0.01)
    points = Points.of(runs)
    begin_S5 = starts(runs, points)[::9]
    samples = Samples.of(runs, np.random.default_rng(0).integers(1, 4, (len(begin_S5), len(runs))).astype(float))
    together = minimize(begin_S5, points, samples)
    for row in range(len(begin_S5)):
        alone = minimize(begin_S5[row : row + 1], points, samples.rows(slice(row, row + 1)))
        np.testing.assert_allclose(alone.objective[0], together.objective[row], rtol=1e-9)


def test_rows_in_pieces_are_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = known_grid(noise=0.01)
    points = Points.of(runs)
    begin_S5 = starts(runs, points)[:5]
    samples = Samples.of(runs, np.ones((5, len(runs))))
    whole = minimize(begin_S5, points, samples)
    monkeypatch.setattr("nextok.scaling.minimize._CELLS_AT_ONCE", 2 * len(runs))
    pieces = minimize(begin_S5, points, samples)
    np.testing.assert_allclose(pieces.objective, whole.objective, rtol=1e-9)


def test_mean_instead_of_sum_changes_nothing_here() -> None:
    runs = known_grid(noise=0.01)
    points = Points.of(runs)
    begin_S5 = points.theta(KNOWN)[None]
    by_sum = minimize(begin_S5, points, Samples.of(runs, np.ones((1, len(runs)))))
    by_mean = minimize(begin_S5, points, Samples.of(runs, np.full((1, len(runs)), 1 / len(runs))))
    np.testing.assert_allclose(by_mean.theta, by_sum.theta, rtol=1e-6)


def library_fit(begin_5: np.ndarray, runs: Runs, scale: float) -> tuple[float, float]:
    """Returns a and the sum objective where L-BFGS-B with its own tolerances stops on the scaled objective."""
    points = Points.of(runs)
    samples = Samples.of(runs, np.ones((1, len(runs))))

    def plain(theta_5: np.ndarray) -> np.ndarray:  # log A and log B as they are, as published code has them
        moved = theta_5.copy()
        moved[1] -= theta_5[3] * points.mean_log_n
        moved[2] -= theta_5[4] * points.mean_log_d
        return moved[None]

    def value_and_slope(theta_5: np.ndarray) -> tuple[float, np.ndarray]:
        moved = plain(theta_5)
        g = slopes(moved, points, samples).gradient[0]
        chained = np.array([g[0], g[1], g[2], g[3] - points.mean_log_n * g[1], g[4] - points.mean_log_d * g[2]])
        return float(objective(moved, points, samples)[0]) * scale, chained * scale

    end = scipy_minimize(value_and_slope, begin_5, jac=True, method="L-BFGS-B")
    return float(end.x[4] / (end.x[3] + end.x[4])), float(objective(plain(end.x), points, samples)[0])


def test_a_library_stops_early_on_the_mean_and_gets_there_on_the_scaled_sum(published: Runs) -> None:
    runs = published.without_highest(5)
    grid = [
        np.array(each) for each in product([-0.5, 0.5, 1.0], [0, 10, 20.0], [0, 10, 20.0], [0, 0.5, 1], [0, 0.5, 1])
    ]
    by_mean = [library_fit(each, runs, 1 / len(runs)) for each in grid]
    by_sum = [library_fit(each, runs, 1e6) for each in grid[::8]]
    assert min(F for _, F in by_mean) > 1.2 * 0.0010182741  # not one of 243 starts comes near
    a, F = min(by_sum, key=lambda end: end[1])
    assert (a, F) == (pytest.approx(0.5139, abs=1e-4), pytest.approx(0.0010182740, rel=1e-6))


def test_the_optimum_of_the_published_runs(published: Runs) -> None:
    runs = published.without_highest(5)
    points = Points.of(runs)
    ends = minimize(starts(runs, points), points, Samples.of(runs, np.ones((64, len(runs)))))
    assert ends.settled.all()
    assert ends.objective.min() <= 0.0010182741
    assert (ends.objective < ends.objective.min() * 1.0001).mean() > 0.3
