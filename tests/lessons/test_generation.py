"""The generation examples hold, carry the lesson's table, and fail for another model."""

import numpy as np
import pytest
import torch

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import generation
from nextok.lessons.generation import EXAMPLES
from nextok.lessons.tinygpt import tiny_config
from nextok.lessons.worked import Example
from nextok.model import build

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
        ("greedy", {5, 12, 3, 42, 2, 38, 35}),
        ("greedy", {0.0435, 0.0509, 0.1318, 0.0709, 0.0657, 20, 48, 34, 18, 6}),
        ("greedy", {0.0359, 0.0491, 0.0524, 0.0522, 0.0391, 0.192, 0.038, 0.923, 0.306, 0.520}),
        ("greedy", set(range(7))),
        ("first-distribution", {3.838, 5, 41, 0.0822, 0.0435, 0.0301}),
        ("past-the-context", {35, 4, 34, 17}),
        ("edge-cases", {"IndexError, InputError", "IndexError, PromptError", "RuntimeError, ModelConfigError"}),
        ("edge-cases", {"RuntimeError, (8, 7, 50)", "(nan, nan), (0.0, 0.0)", 6}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_the_table_has_a_row_a_step() -> None:
    [grid] = worked(EXAMPLES[0]).grids
    assert grid.rows[1] == ("2", "4", "12, 3, 42", "2", "0.0509", "48 (0.0491)", "0.038")
    assert [row[1] for row in grid.rows] == ["3", "4", "5", "6", "7"]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("greedy", "new ids by the lesson's loop"),
        ("greedy", "p(new)"),
        ("first-distribution", "entropy (nats)"),
        ("past-the-context", "steps 6 to 10"),
    ],
)
def test_another_seed_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(generation, "tiny_gpt", lambda **parts: build(tiny_config(**parts), seed=43))
    assert fact in wrong_now(EXAMPLES, name)


def test_bfloat16_leaves_onednn_as_it_was() -> None:
    before = torch.backends.mkldnn.enabled
    assert generation._in_bfloat16()[3:] == (42, 2, 38, 35, 35)
    assert torch.backends.mkldnn.enabled == before


def test_a_softmax_that_gives_nan_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "softmax", lambda scores: np.full_like(scores, np.nan))
    assert wrong_now(EXAMPLES, "edge-cases") == {"fully masked row: lesson, nextok"}


@pytest.mark.parametrize("phrase", ["the id stays (1, 1, 1)", "torch.arange(t), the current length"])
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
