"""A curve in one line of text, and the bounded memory of a curve of any length."""

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-~=*#@"


def sparkline(
    values: Sequence[float | None],
    width: int,
    *,
    ascii_only: bool = False,
    bounds: tuple[float, float] | None = None,
) -> str:
    """Returns the values as at most `width` characters of rising height; None and non-finite values are gaps.

    More values than characters are averaged in equal groups. A flat curve is drawn at the lowest height.

    Args:
        values: The curve.
        width: Most characters.
        ascii_only: For terminals without block characters.
        bounds: Lowest and highest height, to draw several curves to one scale; without, the curve's own.
    """
    levels = _ASCII if ascii_only else _BLOCKS
    means = _group_means(values, width)
    known = [mean for mean in means if mean is not None]
    if not known:
        return " " * len(means)
    low, high = bounds or (min(known), max(known))
    span = high - low
    top = len(levels) - 1
    return "".join(" " if m is None else levels[_rank((m - low) / span, top) if span else 0] for m in means)


def _rank(height: float, top: int) -> int:
    return min(top, max(0, round(height * top)))


class Curve:
    """The course of a value over a run of any length in at most `capacity` points, each the mean of its stretch."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._points: list[float | None] = []
        self._stretch = 1
        self._pending: list[float | None] = []

    def add(self, value: float | None) -> None:
        """Adds the next value; None or a non-finite one leaves a gap."""
        self._pending.append(value)
        if len(self._pending) < self._stretch:
            return
        self._points.append(_mean(self._pending))
        self._pending = []
        if len(self._points) >= self._capacity:  # halve the resolution, not the length
            self._points = [_mean(self._points[i : i + 2]) for i in range(0, len(self._points), 2)]
            self._stretch *= 2

    def points(self) -> list[float | None]:
        """Returns the points so far, oldest first, the unfinished stretch included."""
        return [*self._points, *([_mean(self._pending)] if self._pending else [])]


def _group_means(values: Sequence[float | None], width: int) -> list[float | None]:
    count = min(len(values), max(width, 0))
    return [_mean(values[i * len(values) // count : (i + 1) * len(values) // count]) for i in range(count)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None
