"""The NumPy page's examples hold, carry lesson B's numbers, and fail when the arithmetic is wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import numpy_page
from nextok.lessons.numpy_page import EXAMPLES
from nextok.lessons.worked import Example
from nextok.reference import next_token_loss
from nextok.reference.ops import softmax

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
        ("numpy-loss", {4.6550573, 4.6052, 30_144, 5, 4.5498, 4.6631, 4.5609, 4.6615, 4.84}),
        ("numpy-variants", {4.6550573, 4.6545796, 4.6550930, 4.6042756, 4.6042753, 4.6042835}),
        ("numpy-seeds", {4.616, 0.048}),
        ("numpy-limits", {"ValueError", "InputError"}),
        ("layernorm-eps", {0.2350, 1.6930, 1.7320, 1.5, 0.5, 0.8}),
        ("log-softmax", {-math.inf, -1000.0}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_a_loss_off_in_the_sixth_digit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_page, "next_token_loss", lambda *given: next_token_loss(*given) + 1e-6)
    assert "loss, nats per token" in wrong_now(EXAMPLES, "numpy-loss")
    assert len(wrong_now(EXAMPLES, "numpy-variants")) == 7


def test_eps_inside_the_root_on_the_page_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_page, "PAGE", replace(numpy_page.PAGE, eps_outside=False))
    assert "loss, nats per token" in wrong_now(EXAMPLES, "numpy-loss")


def test_another_first_draw_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = numpy_page.lesson_b
    monkeypatch.setattr(numpy_page, "lesson_b", lambda seed=0: drawn(seed + 500))
    assert "mean over seeds 0 to 199" in wrong_now(EXAMPLES, "numpy-seeds")


def test_a_norm_that_ignores_where_eps_stands_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    norm = numpy_page.layer_norm
    monkeypatch.setattr(numpy_page, "layer_norm", lambda *given, eps_outside: norm(*given))
    assert wrong_now(EXAMPLES, "layernorm-eps") == {"eps outside"}


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_log_of_softmax_in_place_of_log_softmax_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_page, "log_softmax", lambda logits: np.log(softmax(logits)))
    assert wrong_now(EXAMPLES, "log-softmax") == {"log-softmax"}


def test_a_page_that_takes_any_length_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_page, "logits", lambda *given: np.zeros(1))
    assert wrong_now(EXAMPLES, "numpy-limits") == {"65 tokens, here", "no inputs, here"}


@pytest.mark.parametrize("phrase", ["sqrt(var + eps) with the biased variance", "-inf at large logits", "tanh GELU"])
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
