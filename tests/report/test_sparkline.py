"""Sparklines: heights follow values, gaps stay gaps, and a curve of any length fits a bounded memory."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.report import sparkline
from nextok.report.sparkline import Curve

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6) | st.just(math.nan) | st.just(math.inf))


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 8, "▁▂▃▄▅▆▇█"),
        ([8, 1], 9, "█▁"),
        ([0, 0, 7, 7], 2, "▁█"),
        ([1, None, 2], 3, "▁ █"),
        ([1, math.nan, math.inf, 2], 4, "▁  █"),
        ([3, 3, 3], 3, "▁▁▁"),
        ([None, None], 2, "  "),
        ([], 5, ""),
        ([1, 2], 0, ""),
    ],
)
def test_known_curves(values: list[float | None], width: int, line: str) -> None:
    assert sparkline(values, width) == line


def test_curves_are_drawn_to_one_scale_where_it_is_given() -> None:
    assert sparkline([0, 7], 2, bounds=(0, 14)) == "▁▅"
    assert sparkline([-5, 20], 2, bounds=(0, 14)) == "▁█"


def test_narrow_encodings_get_a_curve_too() -> None:
    assert sparkline(range(8), 8, ascii_only=True) == "_.-~=*#@"


@settings(deadline=None)
@given(values=VALUES, width=st.integers(0, 80))
def test_the_line_is_as_long_as_there_are_values_or_room(values: list[float | None], width: int) -> None:
    assert len(sparkline(values, width)) == min(len(values), width)


@settings(deadline=None)
@given(count=st.integers(0, 3000))
def test_a_long_curve_keeps_its_course_in_bounded_memory(count: int) -> None:
    curve = Curve(capacity=16)
    for value in range(count):
        curve.add(float(value))
    points = curve.points()
    assert len(points) <= 17
    assert points == sorted(points)  # type: ignore[type-var]
    if 0 < count < 16:
        assert points == list(range(count))


def test_a_gap_in_a_curve_is_neither_zero_nor_contagious() -> None:
    curve = Curve(capacity=4)
    for value in (1.0, None, 3.0, math.nan):
        curve.add(value)
    assert curve.points() == [1.0, 3.0]
