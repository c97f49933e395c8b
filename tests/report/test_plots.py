"""Plots: a whole PNG for every course a run can take, drawn without touching anyone's matplotlib settings."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

from nextok.errors import DiskError
from nextok.report.plots import _columns, _smoothed, plot_training

BLUE, VERMILION = (0, 114, 178), (213, 94, 0)


def course(steps: int, *, every: int = 10, val_every: int = 0) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for step in range(every, steps + 1, every):
        loss = 1.5 + 3 * math.exp(-step / steps * 8) + 0.05 * math.sin(step)
        records.append({"step": step, "train_loss": loss, "lr": 1e-3 * (1 - step / steps)})
        if val_every and step % val_every == 0:
            records[-1]["val_loss"] = loss + 0.1
    return records


def pixels(path: Path) -> np.ndarray:
    return (mpl.image.imread(path)[:, :, :3] * 255).round().astype(int)


def count(image: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((image == colour).all(axis=2).sum())


GAP = [{**record, "train_loss": None} if 100 < record["step"] < 300 else record for record in course(1000)]
COURSES: dict[str, list[dict[str, Any]]] = {
    "long": course(5000, val_every=250),
    "short": course(50, val_every=20),
    "a million steps": course(1_000_000, every=1000, val_every=50_000),
    "from step one to many": course(10_000, every=1),
    "one record": [{"step": 1, "train_loss": 4.2, "lr": 1e-3}],
    "one evaluation": [{"step": 0, "val_loss": 4.2}],
    "evaluations in records of their own": [{"step": s, "val_loss": 5.0 - s} for s in range(3)] + course(100),
    "gap": GAP,
    "spike": [*course(900), {"step": 910, "train_loss": 1e30}, *course(1000)[91:]],
    "all null": [{"step": s, "train_loss": None, "val_loss": None, "lr": None} for s in range(5)],
    "flat": [{"step": s, "train_loss": 0.0, "val_loss": 0.0, "lr": 0.0} for s in range(50)],
    "best far left": [{"step": s, "train_loss": 1.0, "val_loss": s} for s in range(1, 50)],
    "set back": course(500) + course(1000)[20:],
    "odd values": [{"step": 1, "train_loss": "x", "lr": True}, {"step": None}, {}, {"step": math.inf}],
    "empty": [],
}


@pytest.mark.parametrize("name", COURSES)
def test_every_course_of_a_run_becomes_a_whole_picture(name: str, tmp_path: Path) -> None:
    plot_training(COURSES[name], tmp_path / "loss.png", title=name)
    assert pixels(tmp_path / "loss.png").shape == (750, 1200, 3)
    assert [item.name for item in tmp_path.iterdir()] == ["loss.png"]


def test_training_and_validation_have_their_colours_and_only_when_there(tmp_path: Path) -> None:
    path = tmp_path / "loss.png"
    plot_training(course(1000, val_every=100), path, title="both")
    assert count(pixels(path), BLUE) > 300
    assert count(pixels(path), VERMILION) > 300
    plot_training(course(1000), path, title="no validation")
    assert count(pixels(path), BLUE) > 300
    assert count(pixels(path), VERMILION) == 0


def test_a_gap_is_left_open(tmp_path: Path) -> None:
    widths = []
    for records in (course(1000), GAP):
        plot_training(records, tmp_path / "loss.png", title="")
        widths.append(int((pixels(tmp_path / "loss.png") == BLUE).all(axis=2).any(axis=0).sum()))
    assert widths[1] < widths[0] - 100


@pytest.mark.parametrize("title", ["$5 \\frac{", "日本 😀", "x" * 500, "a\nb", "", "\ud800", "[b]\x1b"])
def test_any_title_is_drawn_as_text(title: str, tmp_path: Path) -> None:
    plot_training([], tmp_path / "loss.png", title=title)
    assert (tmp_path / "loss.png").stat().st_size > 0


def test_the_settings_of_the_user_neither_matter_nor_change(tmp_path: Path) -> None:
    plot_training(course(1000, val_every=100), tmp_path / "a.png", title="run")
    with mpl.rc_context({"text.usetex": True, "figure.facecolor": "black", "font.size": 30, "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        plot_training(course(1000, val_every=100), tmp_path / "b.png", title="run")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_drawing_opens_no_window_and_loads_no_pyplot(tmp_path: Path) -> None:
    program = "import sys, pathlib, nextok.report.plots as p; p.plot_training([], pathlib.Path(sys.argv[1]), title='a')"
    program += "; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "p.png"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_an_old_plot_stays_when_a_new_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        plot_training([], tmp_path / "file" / "loss.png", title="")


def test_columns_hold_numbers_or_nan() -> None:
    run = _columns([{"step": 1, "train_loss": 2}, {"step": 3, "val_loss": None, "lr": math.inf}, {"train_loss": 5.0}])
    np.testing.assert_array_equal(run.step, [1, 3])
    np.testing.assert_array_equal(run.train, [2, np.nan])
    np.testing.assert_array_equal(run.val, [np.nan, np.nan])
    np.testing.assert_array_equal(run.lr, [np.nan, np.nan])


def test_smoothing_is_the_mean_of_a_window_and_keeps_gaps() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    values[100:110] = np.nan
    smooth = _smoothed(values)
    assert smooth[0] == values[0]
    assert np.isnan(smooth[100:110]).all()
    np.testing.assert_allclose(smooth[200], values[195:206].mean())
    np.testing.assert_allclose(smooth[-1], values[-6:].mean())
    np.testing.assert_allclose(smooth[99], values[94:100].mean())
    np.testing.assert_allclose(smooth[2], values[:5].mean())


def test_smoothing_leaves_a_straight_line_straight_but_for_its_end() -> None:
    line = np.linspace(4, 1, 1000)
    np.testing.assert_allclose(_smoothed(line)[:-12], line[:-12])
