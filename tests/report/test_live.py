"""The live area: drawn in place on terminals only, and no failure of it reaches the work it shows."""

import errno
import io
import sys
from typing import Any

import pytest
from rich.text import Text

from nextok.report import make_console
from nextok.report.live import REDRAW_SECONDS, LiveArea


def test_lines_stand_above_the_area_which_stays_last(terminal: Any) -> None:
    area = LiveArea(make_console(terminal), lambda: Text("AREA"))
    area.redraw()
    area.line(Text("line"))
    area.close()
    shown = terminal.getvalue()
    assert shown.index("line") < shown.rindex("AREA")
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_a_pipe_gets_the_lines_alone(pipe: io.StringIO) -> None:
    area = LiveArea(make_console(pipe), lambda: Text("AREA"))
    area.redraw()
    area.line(Text("line"))
    area.close()
    assert pipe.getvalue() == "line\n"


@pytest.mark.parametrize(("name", "value"), [("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1")])
def test_a_pipe_that_wants_colour_gets_no_cursor_movements(
    name: str, value: str, pipe: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    area = LiveArea(make_console(pipe), lambda: Text("AREA"))
    area.redraw()
    area.close()
    assert pipe.getvalue() == ""


def test_a_terminal_that_cannot_move_its_cursor_gets_the_lines_alone(
    terminal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not LiveArea(make_console(terminal), lambda: Text("AREA")).is_live


def test_drawing_is_rationed_but_the_last_state_is_always_shown(terminal: Any, clock: Any) -> None:
    drawn = []
    area = LiveArea(make_console(terminal), lambda: drawn.append(clock.now) or Text("AREA"), clock=clock)
    for _ in range(50):
        area.redraw()
    assert len(drawn) == 1
    clock.now += 2 * REDRAW_SECONDS
    area.redraw()
    assert len(drawn) == 2
    area.close()
    assert len(drawn) == 3


def test_a_long_line_is_one_line_for_grep(pipe: io.StringIO) -> None:
    LiveArea(make_console(pipe, width=40), lambda: Text("")).line(Text("word " * 50))
    assert pipe.getvalue().count("\n") == 1


def test_a_drawing_that_fails_falls_back_to_lines_and_leaves_the_terminal_in_order(terminal: Any) -> None:
    def draw() -> Text:
        raise RuntimeError("broken")

    area = LiveArea(make_console(terminal), draw)
    area.redraw()
    area.line(Text("the run goes on"))
    area.close()
    assert not area.is_live
    assert "broken" in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("the run goes on")
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "terminal gone"), OSError(errno.ENOSPC, "full"), ValueError("closed"), RuntimeError("odd")],
)
def test_a_stream_that_fails_at_any_time_ends_nothing(error: Exception, terminal: Any) -> None:
    for failing_from in range(3):
        terminal.error = None
        area = LiveArea(make_console(terminal), lambda: Text("AREA"))
        for step in range(4):
            terminal.error = error if step >= failing_from else None
            area.redraw(at_once=True)
            area.line(Text("line"))
        area.close()
        assert sys.stdout is not terminal


def test_a_stream_that_is_gone_gathers_no_output(pipe: io.StringIO) -> None:
    console = make_console(pipe)
    area = LiveArea(console, lambda: Text("AREA"))
    pipe.close()
    for _ in range(100):
        area.line(Text("line"))
    assert len(console._buffer) < 10


def test_an_interrupt_passes(terminal: Any) -> None:
    first = iter([True])

    def draw() -> Text:
        if next(first, False):
            raise KeyboardInterrupt
        return Text("AREA")

    area = LiveArea(make_console(terminal), draw)
    with pytest.raises(KeyboardInterrupt):
        area.redraw()
    area.close()
    assert terminal.getvalue().rstrip().endswith("\x1b[?25h")
