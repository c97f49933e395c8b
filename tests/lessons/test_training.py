"""The training examples hold, carry the lesson's losses, and fail for another loss or model."""

from collections.abc import Iterator

import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import training
from nextok.lessons.tinygpt import greedy, tiny_gpt
from nextok.lessons.training import EXAMPLES
from nextok.lessons.worked import Example
from nextok.model import next_token_loss

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.fixture
def fresh_runs() -> Iterator[None]:
    """Forgets the runs that are shared, before a test that changes the code and after it."""
    training.lesson_run.cache_clear()
    yield
    training.lesson_run.cache_clear()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("twenty-steps", {4.0511, 3.8818, 3.7180, 3.5600, 3.4078, 3.2616, 3.1209, 2.9855, 2.8549, 2.7282}),
        ("twenty-steps", {2.6049, 2.4842, 2.3656, 2.2486, 2.1332, 2.0193, 1.9070, 1.7968, 1.6889, 1.5836}),
        ("twenty-steps", {57.5, 4.87, 8, 7, 50, 56, 2.7283, 1.5837}),
        ("memorised", {5, 12, 3, 33, 18, 0, 32, 43, 23, 11, 0.1656, 0.0369, 0.0067}),
        ("memorised", {4.0547, 3.4379, 2.7803, 1.6456}),
        ("first-loss", {4.0511, 4.076, 0.071, 0.167, 3.923, 0.021, 42.6}),
        ("wrong-targets", {1.5836, "yes, no, no"}),
        ("loss-formula", {7, 13}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_generating_from_the_untrained_model_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "greedy", lambda _, ids, new_tokens: greedy(tiny_gpt(), ids, new_tokens))
    assert wrong_now(EXAMPLES, "memorised") == {"after training"}
    assert "after 23, 11, 3: by 1" in wrong_now(EXAMPLES, "wrong-targets")


@pytest.mark.usefixtures("fresh_runs")
@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("loss-formula", "the mean by hand, less the loss"),
        ("wrong-targets", "its own loss at step 20: by 1, equal, by 2"),
        ("twenty-steps", "losses of the 20 steps"),
        ("first-loss", "seed 42"),
    ],
)
def test_a_loss_that_is_off_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(training, "next_token_loss", lambda *inputs: 1.01 * next_token_loss(*inputs))
    monkeypatch.setattr(training, "_FIRST_SEEDS", 2)
    assert fact in wrong_now(EXAMPLES, name)


@pytest.mark.parametrize(
    "phrase",
    [
        "by a single forward pass",
        "T tokens give T - 1 targets",
        "generate from `gpt_tr`",
        "it shows memorisation",
        "95 % of seeds are in 3.94 to 4.21",
    ],
)
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
