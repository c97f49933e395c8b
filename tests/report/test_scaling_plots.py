"""Panels become a picture of the promised size, drawn in the colours promised, and nothing of matplotlib's is left."""

from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pytest

from nextok.errors import DiskError
from nextok.report.panels import Cloud, Curve, Panel, Point
from nextok.report.scaling_plots import plot_panels

CURVE = Curve(name="20:1", x=[1e18, 1e20, 1e22], y=[20.0, 20.0, 20.0], low=[10.0] * 3, high=[40.0] * 3, leading=True)
OTHER = Curve(name="other", x=[1e18, 1e20, 1e22], y=[5.0, 20.0, 80.0])
PANEL = Panel(
    title="D/N", x_label="C", y_label="D/N", curves=[CURVE], points=[Point(x=1e20, y=20.0, name="here")], mark_x=1e20
)


def pixels(path: Path) -> np.ndarray:
    return matplotlib.image.imread(path)[..., :3]


def count_colour(image: np.ndarray, colour: str) -> int:
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return int((np.abs(image - wanted).max(axis=-1) < 0.01).sum())


def test_two_panels_stand_side_by_side(tmp_path: Path) -> None:
    plot_panels([PANEL], tmp_path / "one.png", title="one")
    plot_panels([PANEL, PANEL], tmp_path / "two.png", title="two")
    assert pixels(tmp_path / "one.png").shape == (720, 960, 3)
    assert pixels(tmp_path / "two.png").shape == (720, 1920, 3)


def test_a_curve_keeps_its_colour_from_panel_to_panel(tmp_path: Path) -> None:
    first = Panel(title="", x_label="", y_label="", curves=[CURVE, OTHER])
    second = Panel(title="", x_label="", y_label="", curves=[OTHER], log_y=False, y_limits=(1.0, 30.0))
    plot_panels([first, second], tmp_path / "plot.png", title="")
    image = pixels(tmp_path / "plot.png")
    left, right = image[:, :960], image[:, 960:]
    assert count_colour(left, "#0072B2") > 100 and count_colour(left, "#D55E00") > 100
    assert count_colour(right, "#0072B2") == 0 and count_colour(right, "#D55E00") > 100


def test_a_title_with_dollars_is_a_title(tmp_path: Path) -> None:
    plot_panels([PANEL], tmp_path / "plot.png", title="1,000 $ at 2 $ an hour \u4e2d")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_settings_of_the_user_change_nothing_and_stay(tmp_path: Path) -> None:
    plot_panels([PANEL], tmp_path / "plain.png", title="t")
    with matplotlib.rc_context({"axes.facecolor": "red"}):
        plot_panels([PANEL], tmp_path / "red.png", title="t")
        assert matplotlib.rcParams["axes.facecolor"] == "red"
    assert np.array_equal(pixels(tmp_path / "plain.png"), pixels(tmp_path / "red.png"))


def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError):
        plot_panels([PANEL], tmp_path / "file" / "plot.png", title="t")


def test_a_cloud_is_drawn_as_dots_on_even_axes(tmp_path: Path) -> None:
    few = Cloud(name="runs", x=[-1.0, 0.0, 1.0], y=[-2.0, 0.0, 2.0])
    line = Curve(name="as predicted", x=[-1.0, 1.0], y=[-2.0, 2.0])
    reddish = []
    for clouds in ([], [few]):
        panel = Panel(title="", x_label="", y_label="", curves=[line], clouds=clouds, log_x=False, log_y=False)
        plot_panels([panel], tmp_path / "plot.png", title="")
        image = pixels(tmp_path / "plot.png")
        reddish.append(int((image[..., 0] - image[..., 2] > 0.4).sum()))
    assert reddish[0] == 0
    assert reddish[1] > 50
