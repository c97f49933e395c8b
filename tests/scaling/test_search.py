"""The lowest point and the crossing, where calculus knows them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.scaling.search import crossing, lowest


@given(st.floats(-50, 50))
def test_the_lowest_point_of_a_parabola(middle: float) -> None:
    assert lowest(lambda x: (x - middle) ** 2, -60, 60) == pytest.approx(middle, abs=1e-6)


def test_a_function_that_only_falls_is_lowest_at_the_end() -> None:
    assert lowest(lambda x: -x, 0, 3) == pytest.approx(3)


def test_infinite_beside_the_valley() -> None:
    assert lowest(lambda x: math.inf if x < 1 else (x - 2) ** 2, 0, 5) == pytest.approx(2, abs=1e-6)


@given(st.floats(-50, 50))
def test_the_crossing_of_a_rising_function(root: float) -> None:
    assert crossing(lambda x: (x - root) ** 3, -60, 60) == pytest.approx(root, abs=1e-4)


def test_a_function_that_never_crosses_ends_at_the_nearer_end() -> None:
    assert crossing(lambda _: 1.0, 0, 3) == pytest.approx(0)
    assert crossing(lambda _: -1.0, 0, 3) == pytest.approx(3)
