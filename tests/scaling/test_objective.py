"""The objective against its formula, and its derivatives against differences."""

import numpy as np
import pytest
from scipy.special import huber, logsumexp

from nextok.scaling import ParametricLaw
from nextok.scaling.objective import Points, Samples, objective, predicted_log_loss, slopes
from nextok.scaling.runs import Runs, runs_of

from .conftest import KNOWN, known_grid


def rows(count: int, runs: Runs) -> tuple[np.ndarray, Points, Samples]:
    generator = np.random.default_rng(1)
    points = Points.of(runs)
    theta_S5 = points.theta(KNOWN) + 0.05 * generator.standard_normal((count, 5))
    return theta_S5, points, Samples.of(runs, generator.integers(0, 3, (count, len(runs))).astype(np.float64))


def test_it_is_the_sum_of_hubers_losses_of_log_predicted_minus_log_measured() -> None:
    runs = known_grid(noise=0.01)
    theta_S5, points, samples = rows(3, runs)
    for theta_5, weight_R, F in zip(theta_S5, samples.weight, objective(theta_S5, points, samples), strict=True):
        E, A, B, alpha, beta = points.constants(theta_5[None])[0]
        terms = [np.full(len(runs), np.log(E)), np.log(A) - alpha * np.log(runs.N), np.log(B) - beta * np.log(runs.D)]
        r_R = logsumexp(terms, axis=0) - np.log(runs.loss)
        assert pytest.approx((weight_R * huber(1e-3, r_R)).sum(), rel=1e-12) == F


def test_hand_value() -> None:
    runs = runs_of([1, 1], [1, 1], [2.0, 4.0])
    points, law = Points.of(runs), ParametricLaw(E=2, A=1, B=1, alpha=1, beta=1)  # which says 4 for both
    F = objective(points.theta(law)[None], points, Samples.of(runs, np.ones((1, 2))), delta=0.5)
    assert pytest.approx(0.5 * (np.log(2) - 0.25)) == F[0]


@pytest.mark.parametrize("delta", [1e-3, 0.05, 10.0])
def test_slopes_are_those_of_small_differences(delta: float) -> None:
    theta_S5, points, samples = rows(4, known_grid(noise=0.02))
    found = slopes(theta_S5, points, samples, delta)
    step = 1e-6
    for k in range(5):
        up, down = theta_S5.copy(), theta_S5.copy()
        up[:, k] += step
        down[:, k] -= step
        rise_S = objective(up, points, samples, delta) - objective(down, points, samples, delta)
        np.testing.assert_allclose(rise_S / (2 * step), found.gradient[:, k], rtol=1e-4, atol=1e-7)
        turn = slopes(up, points, samples, delta).gradient - slopes(down, points, samples, delta).gradient
        scale = np.abs(found.hessian).max()
        np.testing.assert_allclose(turn / (2 * step), found.hessian[:, k], rtol=1e-3, atol=1e-3 * scale)


def test_the_upper_slopes_belong_to_squares_above_the_objective() -> None:
    theta_S5, points, samples = rows(1, known_grid(noise=0.02))
    r_SR = predicted_log_loss(theta_S5, points) - samples.log_loss
    other_SR = r_SR + 0.003 * np.random.default_rng(2).standard_normal(r_SR.shape)
    weight_SR = np.minimum(1, 1e-3 / np.abs(r_SR))
    above_SR = huber(1e-3, r_SR) + 0.5 * weight_SR * (other_SR**2 - r_SR**2)
    assert (above_SR >= huber(1e-3, other_SR) - 1e-15).all()
    assert (np.linalg.eigvalsh(slopes(theta_S5, points, samples).upper) > -1e-9).all()


def test_a_law_goes_there_and_back() -> None:
    points = Points.of(known_grid())
    back = points.law(points.theta(KNOWN))
    assert back is not None
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(back, name) == pytest.approx(getattr(KNOWN, name), rel=1e-12)


@pytest.mark.parametrize("theta", [[0, 0, 0, -0.1, 0.3], [0, 0, 0, 80.0, 0.3], [800.0, 0, 0, 0.3, 0.3]])
def test_what_is_no_law_is_none(theta: list[float]) -> None:
    assert Points.of(known_grid()).law(np.array(theta)) is None
