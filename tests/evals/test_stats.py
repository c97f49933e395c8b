"""Intervals against scipy's own, by hand, and by how often they hold what they promise."""

import numpy as np
import pytest
from scipy import stats

from nextok.evals import paired_interval, unpaired_interval

RNG = np.random.default_rng(0)


def test_equal_pieces_give_the_paired_t_interval() -> None:
    a_G, b_G = RNG.normal(3, 0.5, 12), RNG.normal(3.2, 0.5, 12)
    found = paired_interval(a_G * 100, b_G * 100, np.full(12, 100))
    right = stats.ttest_rel(b_G, a_G).confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((right.low, right.high))
    assert found.difference == pytest.approx(float((b_G - a_G).mean()))


def test_a_piece_counts_by_its_tokens() -> None:
    found = paired_interval(np.array([10.0, 10.0, 1.0]), np.array([20.0, 20.0, 2.0]), np.array([10, 10, 1]))
    assert found is not None
    assert (found.difference, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.excludes_zero


def test_several_seeds_give_welchs_interval() -> None:
    a, b = [2.0, 2.1, 1.9, 2.05], [2.3, 2.2, 2.6]
    found = unpaired_interval(a, b, level=0.9)
    right = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.9)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((right.low, right.high))
    assert found.n == 7


def test_one_run_beside_several_takes_their_scatter_for_its_own() -> None:
    several, one = [2.0, 2.1, 1.9], [2.5]
    found = unpaired_interval(several, one)
    reach = stats.t.ppf(0.975, 2) * 0.1 * np.sqrt(1 / 3 + 1)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.5 - reach, 0.5 + reach))
    back = unpaired_interval(one, several)
    assert back is not None
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


def test_there_is_no_interval_without_scatter() -> None:
    assert unpaired_interval([2.0], [2.1]) is None
    assert unpaired_interval([], [2.0, 2.1, 2.2]) is None
    assert paired_interval(np.ones(1), np.ones(1), np.ones(1, dtype=np.int64)) is None
    same = unpaired_interval([2.0, 2.0], [2.0, 2.0])
    assert same is not None
    assert not same.excludes_zero


def test_intervals_of_no_difference_hold_zero_as_often_as_they_promise() -> None:
    paired = [paired_interval(*RNG.normal(300, 10, (2, 20)), np.full(20, 100)) for _ in range(1000)]
    seeds = [unpaired_interval(RNG.normal(3, 0.1, 3).tolist(), RNG.normal(3, 0.2, 4).tolist()) for _ in range(1000)]
    for found in (paired, seeds):
        misses = sum(each is not None and each.excludes_zero for each in found)
        assert 25 <= misses <= 80  # 50 expected
