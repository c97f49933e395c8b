"""Noise: the spread of repeated seeds, or of what a fit leaves over."""

import numpy as np
import pytest

from nextok.scaling.noise import other_seeds, repeats, residual_noise, seed_noise
from nextok.scaling.runs import runs_of

PAIRS = [0.1, 0.2, 0.3, 0.7, 0.0, 0.2, 0.5, 0.5]


def test_hand_value_of_four_pairs() -> None:
    runs = runs_of([1, 1, 2, 2, 3, 3, 4, 4, 5], [5] * 9, np.exp([*PAIRS, 9.0]).tolist(), [0, 1] * 4 + [0])
    noise = seed_noise(runs)
    assert noise is not None
    assert noise.share == pytest.approx(np.sqrt((0.1**2 + 0.4**2 + 0.2**2 + 0) / 2 / 4))
    assert (noise.source, noise.degrees) == ("seeds", 4)
    deviations = other_seeds(runs)
    assert deviations is not None
    expected = np.array([-0.2, -0.1, -0.05, 0, 0, 0.05, 0.1, 0.2]) * np.sqrt(2)
    np.testing.assert_allclose(np.sort(deviations), expected, atol=1e-12)


def test_three_pairs_are_too_few() -> None:
    assert seed_noise(runs_of([1, 1, 2, 2, 3, 3], [5] * 6, np.exp(PAIRS[:6]).tolist(), [0, 1] * 3)) is None


def test_the_same_run_twice_is_no_repeat() -> None:
    runs = runs_of([1, 1], [5, 5], [2.0, 2.0], [0, 0])
    assert seed_noise(runs) is None
    assert other_seeds(runs) is None
    assert list(repeats(runs)) == []


def test_seeds_of_other_lengths_are_no_repeat() -> None:
    assert seed_noise(runs_of([1, 1], [5, 6], [2.0, 2.0], [0, 1])) is None


def test_residuals_give_the_spread_of_a_normal_and_an_outlier_does_not_move_it() -> None:
    residual_R = 0.01 * np.random.default_rng(0).standard_normal(2001)
    plain = residual_noise(residual_R, 5).share
    assert plain == pytest.approx(0.01, rel=0.05)
    residual_R[0] = 100.0
    assert residual_noise(residual_R, 5).share == pytest.approx(plain, rel=0.01)


def test_runs_that_the_fit_passes_through_do_not_count() -> None:
    noise = residual_noise(np.array([0, 0, 0, 0, 0, 0.01, -0.01, 0.01]), 5)
    assert noise.share == pytest.approx(0.014826)
    assert noise.degrees == 3
    assert residual_noise(np.zeros(5), 5).share == 0
