"""Time of a piece of work: repeated until a budget is spent, told as median, fastest and slowest."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

_LEAST_REPEATS, _MOST_REPEATS = 3, 1000

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Seconds that the same work took, over and over."""

    median_s: float
    """The figure that counts: half of the repeats were faster."""
    fastest_s: float
    """What the machine could do when nothing came between."""
    slowest_s: float
    """Far from the median, it says that the machine was not alone with this."""
    repeats: int
    """How often it was done; one run before them is not counted."""


def time_work(work: Work, seconds: float) -> Timing:
    """Returns how long the work takes: at least three times, then until the seconds are spent.

    Args:
        work: The same each time. Its first run does not count: it compiles, and brings memory in.
        seconds: Budget of the repeats.
    """
    work()
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while len(times) < _LEAST_REPEATS or (time.perf_counter() < ends and len(times) < _MOST_REPEATS):
        times.append(_seconds(work))
    return _timing(times)


def median_seconds(work: Work, repeats: int = 7) -> float:
    """Returns the median time of so many runs of the work, after one that does not count."""
    work()
    return _timing([_seconds(work) for _ in range(repeats)]).median_s


def _seconds(work: Work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _timing(times: list[float]) -> Timing:
    return Timing(median_s=statistics.median(times), fastest_s=min(times), slowest_s=max(times), repeats=len(times))
