"""The display of a training run, fed with the records that also go into the metrics file."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nextok.report.console import plain_text
from nextok.report.live import Clock, LiveArea
from nextok.report.sparkline import Curve, sparkline
from nextok.units import format_count, format_flops, format_seconds

Record = Mapping[str, object]

_SPARKLINE_WIDTH = 60
_TITLE_WIDTH = 30
_STEP_WIDTH = 18  # of `step=100000/200000`; longer ones take the room they need
_SPEED_RECORDS = 32  # the time left follows the speed of the last so many records
_MISSING = "-"

# A plain line has one `name=value` for each, in this order; values have no spaces, so that grep and awk can take them.
_PLAIN: dict[str, tuple[str, int]] = {
    "train_loss": (".4f", 8),
    "lr": (".2e", 8),
    "grad_norm": (".3f", 7),
    "tokens_per_s": (".0f", 8),
    "flops_per_s": (".2e", 8),
    "seconds": (".1f", 8),
    "eta": ("", 9),
    "val_loss": (".4f", 8),
    "val_bits_per_byte": (".4f", 8),
    "best_val_loss": (".4f", 8),
}


class TrainingDisplay:
    """Shows a training run; a context manager around it. Displaying never raises.

    On a terminal an area with bar, losses, speed, time left and the loss curve; elsewhere one line for each record. A
    record holds those that apply of step, steps, train_loss, val_loss, val_bits_per_byte, lr, grad_norm, tokens_per_s,
    flops_per_s, seconds; unknown names are ignored.

    Args:
        console: Where to show it.
        title: The name of the run.
        past: The records of a run that is resumed: they shape the curve and the best loss but print nothing.
        clock: Seconds from any origin, never going back.
    """

    def __init__(
        self, console: Console, title: str, *, past: Iterable[Record] = (), clock: Clock = time.monotonic
    ) -> None:
        self._title = title
        self._ascii_only = console.options.ascii_only
        self._clock = clock
        self._latest: dict[str, float] = {}
        self._best: tuple[float, float] | None = None  # validation loss, step
        self._curve = Curve()
        self._pace: deque[tuple[float, float]] = deque(maxlen=_SPEED_RECORDS)  # step, clock
        self._columns: set[str] = set()
        self._area = LiveArea(console, self._view, clock=clock)
        self._area.guard(lambda: self._recall(past))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._area.close()

    def update(self, record: Record) -> None:
        """Shows what one record says."""
        self._area.guard(lambda: self._show(record))

    def message(self, text: str, *, warning: bool = False) -> None:
        """Prints a sentence above the area."""
        self._area.line(plain_text(f"warning: {text}" if warning else text, style="yellow" if warning else ""))

    def sample(self, text: str, step: int) -> None:
        """Prints a text that the model wrote, under a heading, above the area."""
        self._area.line(Text(f"sample at step {step:,}:", style="dim"))
        self._area.line(plain_text(text))

    def _recall(self, past: Iterable[Record]) -> None:
        for record in past:
            self._take(record)
        self._pace.clear()

    def _show(self, record: Record) -> None:
        values = self._take(record)
        if self._area.is_live:
            self._area.redraw()
        else:
            self._area.line(Text(self._plain_line(values)))

    def _take(self, record: Record) -> dict[str, float]:
        """Returns the numbers of the record after remembering them; what is no number counts as not finite."""
        values = {name: _number(value) for name, value in record.items()}
        self._latest.update(values)
        step, val_loss = self._latest.get("step", math.nan), values.get("val_loss", math.nan)
        if "train_loss" in values:
            self._curve.add(values["train_loss"])
        if math.isfinite(val_loss) and (self._best is None or val_loss < self._best[0]):
            self._best = (val_loss, step)
        if self._pace and step < self._pace[-1][0]:
            self._pace.clear()  # set back
        if math.isfinite(step):
            self._pace.append((step, self._clock()))
        return values

    def _seconds_left(self) -> float | None:
        """Returns the steps left at the pace of the last records, None while it is not known."""
        if not self._pace:
            return None
        (first_step, first_time), (step, now) = self._pace[0], self._pace[-1]
        left = self._latest.get("steps", math.nan) - step
        if step == first_step or not math.isfinite(left):
            return None
        return max(0.0, left) * (now - first_time) / (step - first_step)

    def _plain_line(self, values: dict[str, float]) -> str:
        left = self._seconds_left()
        cells = {name: _formatted(values[name], _PLAIN[name][0]) for name in _PLAIN if name in values}
        if left is not None:
            cells["eta"] = format_seconds(left).replace(" ", "")
        if "val_loss" in values and self._best is not None:
            cells["best_val_loss"] = _formatted(self._best[0], ".4f")
        self._columns.update(cells, ["eta"] if "steps" in values else [])
        spelled = [f"step={self._steps('')}".ljust(_STEP_WIDTH)]
        for name, (_, width) in _PLAIN.items():
            if name in self._columns:  # a column seen before keeps its place in records without it
                cell = f"{name}={cells[name]}" if name in cells else ""
                spelled.append(cell.ljust(len(name) + 1 + width))
        return "  ".join(spelled).rstrip()

    def _steps(self, comma: str) -> str:
        """Returns `step/steps`, with the number of steps only where it is known."""
        step, steps = self._latest.get("step", math.nan), self._latest.get("steps", math.nan)
        spelled = _formatted(step, f"{comma}.0f")
        return f"{spelled}/{_formatted(steps, f'{comma}.0f')}" if math.isfinite(steps) else spelled

    def _view(self) -> RenderableType:
        curve = Text(sparkline(self._curve.points(), _SPARKLINE_WIDTH, ascii_only=self._ascii_only), style="cyan")
        curve.no_wrap = True
        return Group(self._bar(), _fact_line(self._loss_facts()), _fact_line(self._speed_facts()), curve)

    def _bar(self) -> RenderableType:
        step, steps = self._latest.get("step", 0.0), self._latest.get("steps", math.nan)
        left = self._seconds_left()
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(no_wrap=True, overflow="ellipsis", max_width=_TITLE_WIDTH)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        known = math.isfinite(step) and math.isfinite(steps) and steps > 0
        facts = [f"step {self._steps(',')}"] + ([f"{format_seconds(left)} left"] if left is not None else [])
        bar: RenderableType = ProgressBar(steps, step) if known else ""
        row.add_row(plain_text(self._title, "bold"), bar, "  ".join(facts))
        return row

    def _loss_facts(self) -> list[tuple[str, str]]:
        facts = self._known(
            {
                "train_loss": ("train loss", lambda value: f"{value:.4f}"),
                "val_loss": ("validation", lambda value: f"{value:.4f}"),
                "val_bits_per_byte": ("bits per byte", lambda value: f"{value:.4f}"),
            }
        )
        if self._best is not None:
            facts.append(("best", f"{self._best[0]:.4f} at step {_formatted(self._best[1], ',.0f')}"))
        return facts

    def _speed_facts(self) -> list[tuple[str, str]]:
        return self._known(
            {
                "tokens_per_s": ("", lambda value: f"{format_count(value)} tokens/s"),
                "flops_per_s": ("", lambda value: f"{format_flops(value)}/s"),
                "lr": ("lr", lambda value: f"{value:.2e}"),
                "grad_norm": ("grad norm", lambda value: f"{value:.3f}"),
                "seconds": ("", format_seconds),
            }
        )

    def _known(self, formats: Mapping[str, tuple[str, Callable[[float], str]]]) -> list[tuple[str, str]]:
        """Returns label and spelled value of those that a record has named; what is not finite is a dash."""
        return [
            (label, spell(self._latest[name]) if math.isfinite(self._latest[name]) else _MISSING)
            for name, (label, spell) in formats.items()
            if name in self._latest
        ]


def _fact_line(facts: Iterable[tuple[str, str]]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for label, value in facts:
        line.append("   " if line else "")
        line.append(f"{label} " if label else "", style="dim")
        line.append(value)
    return line


def _number(value: object) -> float:
    """Returns the value as a float, NaN where it is none; NumPy scalars are numbers too."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _formatted(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else _MISSING
