"""Plots of scaling laws: panels side by side, compute or size on a logarithmic axis, bands where intervals are known.

Drawn like the plot of a training run, through matplotlib's objects on a canvas of its own. Colours are those of Okabe
and Ito, which colour-blind readers tell apart; lines differ in their dashes as well.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nextok.files import write_atomically
from nextok.report.panels import Curve, Panel
from nextok.report.plots import BASE_STYLE, INK, QUIET

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F", "#999999")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_PANEL_INCHES = (6.4, 4.8)
_DPI = 150


def plot_panels(panels: Sequence[Panel], path: Path, *, title: str) -> None:
    """Draws the panels side by side into a PNG, 720 pixels high, written atomically.

    Args:
        panels: At least one.
        path: The file.
        title: Above all of them.

    Raises:
        DiskError: if the file cannot be written.
    """
    assert panels, "a plot needs a panel"
    with matplotlib.style.context(["default", BASE_STYLE]), warnings.catch_warnings(action="ignore"):
        width, height = _PANEL_INCHES
        figure = Figure(figsize=(width * len(panels), height), dpi=_DPI, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
        names = list(dict.fromkeys(name for panel in panels for name in _names(panel)))
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, panel, names)
        write_atomically(path, lambda stream: canvas.print_png(stream))


def _names(panel: Panel) -> list[str]:
    return [curve.name for curve in panel.curves] + [cloud.name for cloud in panel.clouds]


def _draw(axes: Axes, panel: Panel, names: list[str]) -> None:
    """Draws one panel; a name has the same colour and dashes in all of them."""
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    axes.set_title(panel.title, loc="left", fontsize=10, color=QUIET, parse_math=False)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    for curve in panel.curves:
        number = names.index(curve.name)
        _draw_curve(axes, curve, _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)])
    for cloud in panel.clouds:
        colour = _COLOURS[names.index(cloud.name) % len(_COLOURS)]
        axes.plot(cloud.x, cloud.y, marker="o", ms=3.5, mew=0, color=colour, alpha=0.7, ls="", label=cloud.name)
    if panel.mark_x is not None:
        axes.axvline(panel.mark_x, color=INK, lw=0.8, zorder=1, label=panel.mark_name or None)
    for point in panel.points:
        axes.plot(point.x, point.y, marker="o", ms=8, mfc="none", mec=INK, mew=1.6, ls="", label=point.name or None)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)


def _draw_curve(axes: Axes, curve: Curve, colour: str, dashes: object) -> None:
    weight = 2.6 if curve.leading else 1.4
    axes.plot(curve.x, curve.y, color=colour, lw=weight, ls=dashes, label=curve.name, zorder=3 if curve.leading else 2)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
