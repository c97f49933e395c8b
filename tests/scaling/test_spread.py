"""Intervals of N: hand values at the pivot and away from it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.scaling.spread import ExponentSpread, FrontierSpread

EXPONENT = ExponentSpread(a=0.5, low=0.4, high=0.52, pivot_flops=1e20)
FRONTIER = FrontierSpread(pivot_flops=1e20, sd_log_n=0.1, sd_a=0.02, correlation=0.5)


def test_an_exponent_alone_is_certain_at_its_pivot_and_opens_by_the_decade() -> None:
    assert EXPONENT.interval(1e9, 1e20) == pytest.approx((1e9, 1e9))
    assert EXPONENT.interval(1e10, 1e22) == pytest.approx((1e10 * 10**-0.2, 1e10 * 10**0.04))
    assert EXPONENT.interval(1e8, 1e18) == pytest.approx((1e8 * 10**-0.04, 1e8 * 10**0.2))


def test_a_frontier_by_hand() -> None:
    low, high = FRONTIER.interval(1e9, 1e20)
    assert math.log(high / 1e9) == pytest.approx(1.28155 * 0.1, rel=1e-4)
    assert low * high == pytest.approx(1e18)
    away = math.log(100) * 0.02
    _, high = FRONTIER.interval(1e9, 1e22)
    assert math.log(high / 1e9) == pytest.approx(1.28155 * math.sqrt(0.01 + away**2 + 0.1 * away), rel=1e-4)


@given(st.floats(12, 28))
def test_the_interval_holds_n(decades: float) -> None:
    for spread in (EXPONENT, FRONTIER):
        low, high = spread.interval(1e9, 10**decades)
        assert low <= 1e9 <= high
