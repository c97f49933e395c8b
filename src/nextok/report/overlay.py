"""The plot of several runs over each other: training loss thin, validation loss thick, over training tokens."""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from nextok.files import write_atomically
from nextok.report.plots import STYLE, drawable
from nextok.units import format_count

Records = Sequence[Mapping[str, Any]]

# Okabe and Ito, darkest first, without the yellow that paper swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_SIZE_INCHES = (8.0, 5.0)
_DPI = 150
_USUAL_PERCENT = 98  # of the losses; a few first ones may leave through the top


def plot_overlay(curves: Mapping[str, Records], path: Path) -> None:
    """Draws the losses of runs over one another into a PNG, written atomically.

    Args:
        curves: The lines of metrics of each run, under the name it is shown by.
        path: The file.

    Raises:
        DiskError: if the file cannot be written.
    """
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings(action="ignore"):
        figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        _draw(figure.subplots(), curves)
        write_atomically(path, canvas.print_png)


def _draw(axes: Axes, curves: Mapping[str, Records]) -> None:
    losses: list[float] = []
    for number, (name, records) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        tokens_N, train_N = _series(records, "train_loss")
        axes.plot(tokens_N, train_N, color=colour, lw=0.7, alpha=0.35)
        at_M, val_M = _series(records, "val_loss")
        axes.plot(at_M, val_M, color=colour, lw=1.8, marker="o", ms=3, label=drawable(name))
        losses += [*train_N, *val_M]
    if losses:
        low, usual = np.percentile(losses, [0, _USUAL_PERCENT])
        axes.set_ylim(low - 0.05 * (usual - low or 1), usual + 0.05 * (usual - low or 1))
    axes.set_ylabel("loss (nats per token): thin training, thick validation")
    axes.set_xlabel("training tokens")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(max(0, value))))
    for text in axes.legend(frameon=False).get_texts():
        text.set_parse_math(False)


def _series(records: Records, name: str) -> tuple[list[float], list[float]]:
    found = [(float(row["tokens"]), float(row[name])) for row in records if row.get(name) is not None]
    found = [(tokens, value) for tokens, value in found if math.isfinite(value)]
    return [tokens for tokens, _ in found], [value for _, value in found]
