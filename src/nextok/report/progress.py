"""Progress of a piece of work with a known or unknown amount: done, speed, time left."""

import time
from typing import Self

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nextok.report.console import plain_text
from nextok.report.live import Clock, LiveArea
from nextok.units import format_bytes, format_count, format_seconds

QUIET_SECONDS = 2.0  # work that takes less is not worth a line
BAR_SECONDS = 0.5  # before that a bar would only flicker
LINE_SECONDS = 10.0  # between the lines on a stream that is not a terminal


class WorkProgress:
    """Shows how far a piece of work is; a context manager around that work.

    On a terminal a bar that vanishes at the end, elsewhere a line now and then; work of more than two seconds leaves
    one line with its amount, time and speed. Displaying never raises.

    Args:
        console: Where to show it.
        label: What is being done, such as `Reading the corpus`.
        total: The amount of work, None if unknown.
        unit: What is counted: `bytes`, or the plural of anything else, such as `documents`.
        clock: Seconds from any origin, never going back.
    """

    def __init__(
        self,
        console: Console,
        label: str,
        total: float | None = None,
        *,
        unit: str = "bytes",
        clock: Clock = time.monotonic,
    ) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._clock = clock
        self._done = 0.0
        self._began = self._said = clock()
        self._area = LiveArea(console, self._view, transient=True, clock=clock)

    def __enter__(self) -> Self:
        self._began = self._said = self._clock()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._area.close()
        if error_type is None and self._seconds() >= QUIET_SECONDS:
            speed = f", {self._amount(self._speed())}/s"
            self._area.line(
                plain_text(f"{self._label}: {self._amount(self._done)} in {format_seconds(self._seconds())}{speed}")
            )

    def advance(self, amount: float) -> None:
        """Counts work that is done, in the unit of the total."""
        self._done += amount
        if self._area.is_live:
            if self._seconds() >= BAR_SECONDS:
                self._area.redraw()
        elif self._clock() - self._said >= (QUIET_SECONDS if self._said == self._began else LINE_SECONDS):
            self._said = self._clock()
            self._area.line(plain_text(f"{self._label}: {'  '.join(self._facts())}"))

    def _view(self) -> RenderableType:
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        row.add_row(
            plain_text(self._label), ProgressBar(self._total, self._done), Text("  ".join(self._facts()), "dim")
        )
        return row

    def _facts(self) -> list[str]:
        speed = self._speed()
        done, per_second = self._amount(self._done), f"{self._amount(speed)}/s"
        if self._total is None:
            return [done, per_second]
        facts = [f"{done} of {self._amount(self._total)}", per_second]
        if speed > 0:
            facts.append(f"{format_seconds(max(0.0, self._total - self._done) / speed)} left")
        return facts

    def _seconds(self) -> float:
        return self._clock() - self._began

    def _speed(self) -> float:
        return self._done / self._seconds() if self._seconds() > 0 else 0.0

    def _amount(self, amount: float) -> str:
        return format_bytes(amount) if self._unit == "bytes" else f"{format_count(amount)} {self._unit}"
