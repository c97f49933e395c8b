"""The exercises hold, carry lesson B's answers, and fail when counts or mask are wrong."""

from dataclasses import replace

import numpy as np
import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import exercises
from nextok.lessons.exercises import EXAMPLES
from nextok.lessons.worked import Example
from nextok.spec import preset_config

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("exercise-1", {38_597_376, 124_439_808, 163_037_184, 23.7, 33_344, 9.6}),
        ("exercise-2", {2_359_296, 4_718_592, 2, 7_077_888, 7_087_872}),
        ("exercise-3", {1, 2, 3, 4, 5, 0.7614, 0.2386, 0.1959, 0.3042, 0.4999, 0.2099, 0.1217, 0.5310, 0.1374}),
        ("exercise-3", {0.1364, 0.0638, 0.1244, 0.1882, 0.4872}),
    ],
)
def test_the_lessons_answers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_another_width_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercises, "preset_config", lambda name: preset_config("gpt2-medium"))
    assert {"V d", "tied", "untied", "saved, %"} <= wrong_now(EXAMPLES, "exercise-1")
    assert {"attention, 4 d^2", "feed-forward, 2 d d_ff"} <= wrong_now(EXAMPLES, "exercise-2")


def test_a_wider_feed_forward_layer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercises, "preset_config", lambda name: replace(preset_config(name), d_ff=8 * 768))
    assert "ratio" in wrong_now(EXAMPLES, "exercise-2")


def test_a_softmax_over_the_future_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(scores: np.ndarray) -> np.ndarray:
        raised = np.exp(np.where(np.isfinite(scores), scores, 0))
        return raised / raised.sum(axis=-1, keepdims=True)

    monkeypatch.setattr(exercises, "softmax", unmasked)
    assert {"attended positions", "weight on the future", "row 0", "row 3"} <= wrong_now(EXAMPLES, "exercise-3")


def test_halving_is_corrected() -> None:
    assert "9.6 % of the page's own model (3,200 of 33,344)" in corrections(EXAMPLES)
