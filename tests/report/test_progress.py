"""Progress of work: amounts, speed and time left by hand; quiet where the work is short."""

import io
import re
from typing import Any

import pytest

from nextok.report import WorkProgress, make_console

MIB = 2**20


def test_short_work_leaves_no_trace(pipe: io.StringIO, terminal: Any, clock: Any) -> None:
    for stream in (pipe, terminal):
        with WorkProgress(make_console(stream), "Reading", 10 * MIB, clock=clock) as progress:
            progress.advance(10 * MIB)
            clock.now += 0.2
            progress.advance(0)
        assert stream.getvalue() == ""


def test_a_pipe_gets_a_line_after_two_seconds_then_every_ten_and_one_at_the_end(pipe: io.StringIO, clock: Any) -> None:
    with WorkProgress(make_console(pipe), "Reading", 100 * MIB, clock=clock) as progress:
        for _ in range(20):
            clock.now += 1.0
            progress.advance(5 * MIB)
    assert pipe.getvalue().splitlines() == [
        "Reading: 10.0 MiB of 100.0 MiB  5.0 MiB/s  18.0 s left",
        "Reading: 60.0 MiB of 100.0 MiB  5.0 MiB/s  8.0 s left",
        "Reading: 100.0 MiB in 20.0 s, 5.0 MiB/s",
    ]


def test_an_unknown_total_has_no_time_left_and_any_unit_can_be_counted(pipe: io.StringIO, clock: Any) -> None:
    with WorkProgress(make_console(pipe), "Tokenizing", unit="documents", clock=clock) as progress:
        clock.now += 4.0
        progress.advance(5000)
    assert pipe.getvalue().splitlines() == [
        "Tokenizing: 5.00k documents  1.25k documents/s",
        "Tokenizing: 5.00k documents in 4.0 s, 1.25k documents/s",
    ]


def test_a_terminal_gets_a_bar_that_gives_way_to_the_last_line(terminal: Any, clock: Any) -> None:
    with WorkProgress(make_console(terminal, width=80), "Reading", 4 * MIB, clock=clock) as progress:
        for _ in range(4):
            clock.now += 1.0
            progress.advance(MIB)
    shown = terminal.getvalue()
    assert "━" in shown
    assert "2.0 MiB of 4.0 MiB" in shown
    assert re.search(r"\x1b\[2KReading: 4\.0 MiB in 4\.0 s, 1\.0 MiB/s\n\Z", shown)


@pytest.mark.parametrize(("done", "total"), [(0, 0), (5, 0), (0, 10), (20, 10)])
def test_odd_amounts_are_shown_too(done: float, total: float, terminal: Any, clock: Any) -> None:
    with WorkProgress(make_console(terminal), "[b]odd", total, clock=clock) as progress:
        clock.now += 3.0
        progress.advance(done)
    assert "[b]odd" in terminal.getvalue()


def test_work_that_fails_is_not_reported_as_done_and_its_error_passes(pipe: io.StringIO, clock: Any) -> None:
    with pytest.raises(KeyError), WorkProgress(make_console(pipe), "Reading", 10, clock=clock):
        clock.now += 5.0
        raise KeyError
    assert pipe.getvalue() == ""
