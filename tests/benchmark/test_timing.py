"""Repeats within a budget, and what is told of them."""

import time
from collections.abc import Iterator

import pytest

from nextok.benchmark import median_seconds, time_work


def test_work_without_a_budget_runs_three_times_and_once_before() -> None:
    calls: list[int] = []
    timing = time_work(lambda: calls.append(1), seconds=0.0)
    assert (timing.repeats, len(calls)) == (3, 4)


def test_a_budget_is_spent_on_repeats() -> None:
    timing = time_work(lambda: time.sleep(0.001), seconds=0.05)
    assert timing.repeats > 3
    assert timing.fastest_s <= timing.median_s <= timing.slowest_s


def test_the_figure_is_the_median_and_the_first_run_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, *times_of([2.0, 9.0, 1.0])])  # the budget's end is asked for first
    monkeypatch.setattr("nextok.benchmark.timing.time.perf_counter", lambda: next(clock))
    timing = time_work(lambda: None, seconds=0.0)
    assert (timing.median_s, timing.fastest_s, timing.slowest_s) == (2.0, 1.0, 9.0)


def times_of(durations: list[float]) -> Iterator[float]:
    """Yields the clock before and after each piece of work, and after the last whether time is left."""
    now = 0.0
    for duration in durations:
        yield now
        now += duration
        yield now
    yield now


def test_median_of_a_number_of_runs() -> None:
    calls: list[int] = []
    assert median_seconds(lambda: calls.append(1), repeats=5) >= 0.0
    assert len(calls) == 6
