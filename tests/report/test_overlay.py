"""The plot of several runs: whole, in their colours, whatever the runs are."""

from pathlib import Path

import matplotlib.image
import pytest

from nextok.errors import DiskError
from nextok.report.overlay import plot_overlay


def curve(offset: float) -> list[dict[str, float | None]]:
    rows: list[dict[str, float | None]] = [
        {"tokens": n * 1000, "train_loss": offset + 4 / n, "val_loss": offset + 5 / n if n % 5 == 0 else None}
        for n in range(1, 41)
    ]
    rows[7]["train_loss"] = None
    return rows


def test_each_run_has_a_curve_in_a_colour_of_its_own(tmp_path: Path) -> None:
    plot_overlay({"a": curve(0), "$b_{": curve(1), "ünder\nscore": curve(2)}, tmp_path / "plots" / "o.png")
    image = (matplotlib.image.imread(tmp_path / "plots" / "o.png")[:, :, :3] * 255).round().astype(int)
    assert image.shape[:2] == (750, 1200)
    for colour in ((0, 114, 178), (213, 94, 0), (0, 158, 115)):
        assert (image == colour).all(axis=2).sum() > 200


def test_runs_without_losses_are_drawn_too(tmp_path: Path) -> None:
    plot_overlay({"a": [], "b": [{"tokens": 1, "train_loss": None}]}, tmp_path / "o.png")
    plot_overlay({"one": [{"tokens": 1, "train_loss": 2.0, "val_loss": 2.0}]}, tmp_path / "o.png")
    with pytest.raises(DiskError):
        plot_overlay({"a": curve(0)}, tmp_path / "o.png" / "x.png")
