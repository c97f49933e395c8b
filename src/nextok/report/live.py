"""An area at the foot of a terminal that is redrawn in place, with lines printed above it.

A display must never end the work it shows: every failure to draw is caught in `LiveArea.guard`, which falls back to
plain lines, and to silence if the stream is gone. No thread is started; the call that brings news draws them.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from nextok.report.console import plain_text

REDRAW_SECONDS = 0.1  # drawing costs about a millisecond; ten a second look fluent and cost one percent

Clock = Callable[[], float]


class LiveArea:
    """The area, on a terminal; on any other stream only its lines.

    Args:
        console: Where to draw.
        draw: Returns what the area shows now.
        transient: Whether the area vanishes at the end.
        clock: Seconds from any origin, never going back.
    """

    def __init__(
        self,
        console: Console,
        draw: Callable[[], RenderableType],
        *,
        transient: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._console = console
        self._draw = draw
        self._transient = transient
        self._clock = clock
        self._live: Live | None = None
        self._drawn_at = -float("inf")
        self._muted = False
        # FORCE_COLOR makes rich call a pipe a terminal; colours may go there, cursor movements may not.
        self.is_live = console.is_interactive and _is_terminal(console.file)

    def redraw(self, *, at_once: bool = False) -> None:
        """Draws the area anew, at most ten times a second unless it must be `at_once`."""
        now = self._clock()
        if self.is_live and (at_once or now - self._drawn_at >= REDRAW_SECONDS):
            self._drawn_at = now
            self.guard(self._update)

    def line(self, content: RenderableType) -> None:
        """Prints above the area; text is neither cut nor wrapped."""
        self.guard(lambda: self._console.print(content, soft_wrap=True))

    def close(self) -> None:
        """Draws a last time and leaves the terminal as it was; closing twice does no harm."""
        if self._live is not None:
            if not self._transient:
                self.redraw(at_once=True)
            self.guard(self._stop)

    def guard(self, action: Callable[[], object]) -> None:
        """Runs the action; one that fails costs the area, or where there is none what it would have shown."""
        if self._muted:
            return
        try:
            action()
        except Exception as error:
            if self.is_live:
                self.is_live = False
                with contextlib.suppress(Exception):
                    self._stop()
                self.line(plain_text(f"The live display was switched off: {error!r}"))
            else:  # a stream that is gone stays gone, and rich would gather all that was meant for it
                self._muted = isinstance(error, OSError | ValueError)

    def _update(self) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=self._transient,
                # Prints of other code go above the area, but not those meant for a file.
                redirect_stdout=_is_terminal(sys.stdout),
                redirect_stderr=_is_terminal(sys.stderr),
            )
            self._live.start()
        self._live.update(self._draw(), refresh=True)

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError, OSError):  # no stream, a closed one, or one without a terminal's functions
        return False
