"""The picture of a fit as data: measured beside predicted, and what is left over along N and along D."""

import numpy as np

from nextok.report.panels import Cloud, Curve, Panel
from nextok.scaling.fit_result import Fit


def fit_panels(fit: Fit, *, loss_unit: str) -> tuple[Panel, Panel, Panel]:
    """Returns three panels; a trend left in the last two is what the law gets wrong."""
    runs = fit.runs
    percent_R = 100 * fit.residual
    clouds = _parts(fit)
    return (
        _measured(fit, loss_unit),
        _residuals("parameters N", runs.N, percent_R, clouds),
        _residuals("training tokens D", runs.D, percent_R, clouds),
    )


def _measured(fit: Fit, loss_unit: str) -> Panel:
    loss_R = fit.runs.loss
    predicted_R = loss_R * np.exp(-fit.residual)
    ends = [float(min(loss_R.min(), predicted_R.min())), float(max(loss_R.max(), predicted_R.max()))]
    return Panel(
        title="measured beside predicted",
        x_label=f"predicted loss ({loss_unit})",
        y_label=f"measured loss ({loss_unit})",
        curves=[Curve(name="as predicted", x=ends, y=ends)],
        clouds=[
            Cloud(name=name, x=predicted_R[chosen].tolist(), y=loss_R[chosen].tolist()) for name, chosen in _parts(fit)
        ],
        log_x=False,
        log_y=False,
    )


def _residuals(label: str, x_R: np.ndarray, percent_R: np.ndarray, clouds: list[tuple[str, np.ndarray]]) -> Panel:
    ends = [float(x_R.min()), float(x_R.max())]
    return Panel(
        title=f"what is left over, along {label.split()[-1]}",
        x_label=label,
        y_label="measured above predicted (%)",
        curves=[Curve(name="as predicted", x=ends, y=[0.0, 0.0])],
        clouds=[Cloud(name=name, x=x_R[chosen].tolist(), y=percent_R[chosen].tolist()) for name, chosen in clouds],
        log_y=False,
    )


def _parts(fit: Fit) -> list[tuple[str, np.ndarray]]:
    """Returns the runs and the outliers among them, by position."""
    far = np.isin(fit.runs.line, [each.line for each in fit.outliers])
    parts = [("runs", np.flatnonzero(~far)), ("outliers", np.flatnonzero(far))]
    return [(name, chosen) for name, chosen in parts if len(chosen)]
