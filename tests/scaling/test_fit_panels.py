"""The picture of a fit: every run once in each panel, and nothing left over without noise."""

import numpy as np
import pytest

from nextok.scaling import Fit, FitOptions, fit
from nextok.scaling.fit_panels import fit_panels
from nextok.scaling.runs import runs_of

from .conftest import known_grid


def test_every_run_stands_in_every_panel(noisy_fit: Fit) -> None:
    panels = fit_panels(noisy_fit, loss_unit="bits/byte")
    assert [sum(len(cloud.x) for cloud in panel.clouds) for panel in panels] == [48, 48, 48]
    assert "bits/byte" in panels[0].x_label
    left = np.concatenate([cloud.y for cloud in panels[1].clouds])
    assert sorted(left) == pytest.approx(sorted(100 * noisy_fit.residual))


def test_outliers_are_a_cloud_of_their_own() -> None:
    runs = known_grid()
    loss = runs.loss.copy()
    loss[3] *= 1.2
    found = fit(runs_of(runs.N, runs.D, loss), FitOptions(resamples=0))  # type: ignore[arg-type]
    measured, along_n, _ = fit_panels(found, loss_unit="nats/token")
    assert [(cloud.name, len(cloud.x)) for cloud in measured.clouds] == [("runs", 23), ("outliers", 1)]
    assert along_n.clouds[1].y == pytest.approx([100 * np.log(1.2)], rel=0.02)
    assert along_n.clouds[1].x == pytest.approx([runs.N[3]])
