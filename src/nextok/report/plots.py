"""The plot of a training run: losses, the best of them, and the learning rate below.

Drawn through matplotlib's objects on a canvas of its own: no window, no pyplot, no settings of the user or of other
plots. Colours are the blue and vermilion of Okabe and Ito, which colour-blind readers tell apart.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from nextok.files import write_atomically

Record = dict[str, Any]
Series = Float[np.ndarray, " N"]

QUIET, INK = "#6E6E6E", "#222222"
_TRAIN, _VALIDATION = "#0072B2", "#D55E00"
BASE_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#BBBBBB",
    "axes.labelcolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "axes.grid": True,
    "grid.color": "#ECECEC",
    "axes.axisbelow": True,
}
"""Of every plot."""
STYLE = BASE_STYLE | {"xtick.major.size": 3, "ytick.major.size": 0, "axes.grid.axis": "y", "agg.path.chunksize": 10_000}
"""Of curves over steps or tokens, which can be very long."""
_SIZE_INCHES = (8.0, 5.0)
_DPI = 150
_TITLE_CHARACTERS = 64
_LOG_RATIO = 3000  # steps over more than three decades are told better on a logarithmic axis
_SMOOTH_FROM = 30  # records; with fewer the points speak for themselves


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """The columns of the records, NaN where a record has no number."""

    step: Series
    train: Series
    val: Series
    lr: Series


def plot_training(records: Sequence[Record], path: Path, *, title: str) -> None:
    """Draws the records of a run into a PNG of 1,200 by 750 pixels, written atomically.

    Args:
        records: As in the metrics file: step, and of train_loss, val_loss, lr those that apply; null leaves a gap.
        path: The file.
        title: Shown as it is, shortened if long.

    Raises:
        DiskError: if the file cannot be written.
    """
    # Warned of: a title in a script that the font lacks, which is drawn as boxes. No reason to disturb a run.
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings(action="ignore"):
        figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        _draw(figure, _columns(records), title)
        write_atomically(path, canvas.print_png)


def _columns(records: Sequence[Record]) -> _Run:
    placed = [record for record in records if math.isfinite(_number(record.get("step")))]
    names = ("step", "train_loss", "val_loss", "lr")
    step_N, train_N, val_N, lr_N = (np.array([_number(r.get(name)) for r in placed], np.float64) for name in names)
    return _Run(step=step_N, train=train_N, val=val_N, lr=lr_N)


def _number(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else math.nan  # type: ignore[arg-type]


def _draw(figure: Figure, run: _Run, title: str) -> None:
    if np.isfinite(run.lr).any():
        losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=[5, 1])
        _draw_rates(rates, run)
    else:
        losses = rates = figure.subplots()
    losses.set_title(drawable(title), loc="left", fontsize=13, fontweight="bold", color=INK, pad=14, parse_math=False)
    losses.set_ylabel("loss (nats per token)")
    rates.set_xlabel("step")
    _set_steps(rates, run.step)
    _draw_losses(losses, run)


def drawable(title: str) -> str:
    """Returns the title on one line of bounded length; a lone surrogate would make the font library raise."""
    line = "".join(character if character.isprintable() else " " for character in title[:_TITLE_CHARACTERS])
    return f"{line[:-1]}…" if len(title) > _TITLE_CHARACTERS else line


def _draw_losses(axes: Axes, run: _Run) -> None:
    ends = []
    top = _set_losses(axes, np.concatenate([run.train, run.val]))
    if np.isfinite(run.train).any():
        ends.append(("training", *_draw_train(axes, run, top), _TRAIN))
    known = np.isfinite(run.val)
    if known.any():
        step_M, val_M = run.step[known], run.val[known]
        axes.plot(step_M, val_M, color=_VALIDATION, lw=1.6, marker="o", ms=3.5 if len(val_M) <= 60 else 0)
        ends.append(("validation", step_M[-1], val_M[-1], _VALIDATION))
        _mark_best(axes, step_M, val_M)
    if ends:
        _label_ends(axes, ends)
    else:
        axes.text(0.5, 0.5, "no losses recorded", transform=axes.transAxes, ha="center", color=QUIET)


def _draw_train(axes: Axes, run: _Run, top: float) -> tuple[float, float]:
    """Draws raw and smoothed training loss; returns where the line ends."""
    recorded = np.isfinite(run.train) | np.isnan(run.val)  # a record of an evaluation alone is no gap
    step_M, train_M = run.step[recorded], run.train[recorded]
    known_M = np.isfinite(train_M)
    if known_M.sum() < _SMOOTH_FROM:
        axes.plot(step_M, train_M, color=_TRAIN, lw=1.6, marker="o", ms=3.5)
        return step_M[known_M][-1], train_M[known_M][-1]
    smooth_M = _smoothed(np.minimum(train_M, top))  # a spike off the chart should not drag its neighbours along
    axes.plot(step_M, train_M, color=_TRAIN, lw=0.7, alpha=0.3)
    axes.plot(step_M, smooth_M, color=_TRAIN, lw=1.8)
    return step_M[known_M][-1], smooth_M[known_M][-1]


def _smoothed(values_N: Series) -> Series:
    """Returns the mean over a centred window of a fortieth of the records; gaps stay gaps.

    At the start, where a loss falls steeply, the window narrows to stay centred; at the end, where it is flat, the
    window is only cut, so that the last value is still a mean of many.
    """
    known_N = np.isfinite(values_N)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known_N, values_N, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known_N)])
    position_N = np.arange(len(values_N))
    reach_N = np.minimum(max(1, len(values_N) // 80), position_N)
    low_N, high_N = position_N - reach_N, np.minimum(position_N + reach_N + 1, len(values_N))
    count_N = np.maximum(counts[high_N] - counts[low_N], 1)
    return np.where(known_N, (sums[high_N] - sums[low_N]) / count_N, np.nan)


def _draw_rates(axes: Axes, run: _Run) -> None:
    known = np.isfinite(run.lr)
    peak = float(run.lr[known].max())
    axes.plot(run.step[known], run.lr[known], color=QUIET, lw=1.4, marker="o" if known.sum() == 1 else "", ms=3.5)
    axes.set_title("learning rate", loc="left", fontsize=10, color=QUIET, pad=4)
    axes.set_ylim(0, peak * 1.1 or 1.0)
    axes.set_yticks([0, peak], ["0", f"{peak:.2g}"])


def _set_steps(axes: Axes, step_N: Series) -> None:
    """Chooses the step axis: logarithmic only for long runs, whole steps as labels, room for a single record."""
    if len(step_N) == 0:
        return
    low, high = float(step_N.min()), float(step_N.max())
    if low > 0 and high / low > _LOG_RATIO:
        axes.set_xscale("log")
        axes.set_xlim(low * 0.8, high * 1.25)
    else:
        margin = 0.01 * (high - low) if high > low else 1.0
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _set_losses(axes: Axes, losses: Series) -> float:
    """Sets the loss axis, with room for a label below; returns its top, through which a rare spike may leave."""
    losses = losses[np.isfinite(losses)]
    if len(losses) == 0:
        return 1.0
    low, high, usual = (float(value) for value in np.percentile(losses, [0, 100, 98]))
    if len(losses) >= _SMOOTH_FROM and high - low > 4 * (usual - low) > 0:
        high = usual + (usual - low)
    span = high - low if high > low else max(abs(high), 1.0) / 10
    top = high + 0.05 * span
    axes.set_ylim(low - 0.15 * span, top)
    return top


def _label_ends(axes: Axes, ends: list[tuple[str, float, float, str]]) -> None:
    """Names each line at its end, in its colour; names that would overlap are moved apart."""
    low, high = axes.get_ylim()
    apart = 0.07 * (high - low)
    ends = sorted(ends, key=lambda end: end[2])
    heights = [min(end[2], high) for end in ends]
    if len(ends) == 2 and heights[1] - heights[0] < apart:
        middle = sum(heights) / 2
        heights = [middle - apart / 2, middle + apart / 2]
    right = max(end[1] for end in ends)
    for (name, _, value, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            f"{name} {value:.3f}",
            (right, height),
            xytext=(10, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )


def _mark_best(axes: Axes, step_M: Series, val_M: Series) -> None:
    """Rings the best validation loss and drops a line to its label, which stands below all curves."""
    best = int(np.argmin(val_M))
    step, loss = float(step_M[best]), float(val_M[best])
    bottom = axes.get_ylim()[0]
    axes.plot(step, loss, marker="o", ms=9, mfc="none", mec=_VALIDATION, mew=1.6, clip_on=False)
    axes.plot([step, step], [bottom, loss], color=_VALIDATION, lw=0.8, ls=(0, (2, 2)), zorder=1)
    on_the_left = axes.transAxes.inverted().transform(axes.transData.transform((step, loss)))[0] > 0.5
    axes.annotate(
        f"best {loss:.3f} at step {step:,.0f}",
        (step, bottom),
        xytext=(-7 if on_the_left else 7, 9),
        textcoords="offset points",
        color=_VALIDATION,
        ha="right" if on_the_left else "left",
        va="center",
        fontweight="bold",
    )
