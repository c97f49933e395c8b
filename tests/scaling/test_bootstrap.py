"""Resamples: drawn as promised, the same for one seed, and as wide as theory says."""

import numpy as np
import pytest

from nextok.scaling.bootstrap import bootstrap, by_run, by_seed, refit, without_each
from nextok.scaling.objective import Points, Samples

from .conftest import KNOWN, known_grid


def test_by_run_draws_as_many_as_there_are() -> None:
    runs = known_grid()
    weight_SR = by_run(runs, 300, 0).weight
    assert (weight_SR.sum(axis=1) == len(runs)).all()
    assert weight_SR.mean(axis=0) == pytest.approx(1, abs=0.3)
    np.testing.assert_array_equal(weight_SR, by_run(runs, 300, 0).weight)
    assert (weight_SR != by_run(runs, 300, 1).weight).any()


def test_by_seed_keeps_every_run_and_draws_the_luck_of_the_repeats() -> None:
    runs = known_grid(noise=0.01, repeats=2)
    samples = by_seed(runs, 400, 0)
    assert samples is not None
    assert (samples.weight == 1).all()
    luck_SR = samples.log_loss - np.log(runs.loss)
    assert luck_SR.std() == pytest.approx(0.01, rel=0.3)
    assert by_seed(known_grid(noise=0.01), 5, 0) is None


def test_refits_keep_the_lowest_end() -> None:
    runs = known_grid()
    points = Points.of(runs)
    good, bad = points.theta(KNOWN), points.theta(KNOWN) + np.array([-20, 0, 0, 0, 1.5])
    samples = Samples.of(runs, np.ones((3, len(runs))))
    for order in ([good, bad], [bad, good]):
        np.testing.assert_allclose(refit(samples, points, np.stack(order)), np.tile(good, (3, 1)), atol=1e-6)


def test_runs_without_noise_give_one_law_over_and_over() -> None:
    runs = known_grid()
    points = Points.of(runs)
    drawn = bootstrap("run", runs, points, points.theta(KNOWN)[None], count=50, seed=0)
    assert drawn is not None
    assert len(drawn.laws) == 50
    assert max(abs(law.a - KNOWN.a) for law in drawn.laws) < 1e-9


def test_each_group_is_left_out_once() -> None:
    runs = known_grid(sizes=3, lengths=2)
    weight_SR = without_each(np.array([0, 0, 1, 1, 2, 2]), runs).weight
    np.testing.assert_array_equal(weight_SR, [[0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 0, 0]])
