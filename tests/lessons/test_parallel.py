"""One pass equals a pass for each prefix; the examples fail for a model without the mask."""

import pytest
import torch

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import parallel
from nextok.lessons.parallel import EXAMPLES
from nextok.lessons.tinygpt import tiny_gpt
from nextok.lessons.worked import Example
from nextok.model import TorchDecoder

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("name", "values"), [("one-pass", {1, 8, 0.36}), ("parallel-training", {1, 64})])
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("one-pass", "largest difference of the logits"),
        ("one-pass", "change of logits 0-4 when token 5 changes"),
        ("parallel-training", "gradient of one pass, less that of 7 prefixes"),
    ],
)
def test_a_missing_mask_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(parallel, "tiny_gpt", lambda **_: tiny_gpt(mask="none"))
    monkeypatch.setattr(parallel, "_TRAINED_LENGTHS", (8,))
    assert fact in wrong_now(EXAMPLES, name)


def test_slow_passes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([2.0, 1.0, 1.0])
    monkeypatch.setattr(parallel, "fastest", lambda run: next(seconds))
    monkeypatch.setattr(parallel, "_TRAINED_LENGTHS", (8,))
    assert "training in one pass is faster than by prefixes" in wrong_now(EXAMPLES, "parallel-training")


def test_reads_are_counted_cached_or_not_and_only_within() -> None:
    model = tiny_gpt()
    with parallel.reads(model) as lengths:
        model(torch.tensor([[1, 2, 3]]))
        TorchDecoder(model).prefill(0, [1, 2])
    model(torch.tensor([[1]]))
    assert lengths == [3, 2]


def test_the_page_is_corrected() -> None:
    assert "in RNNs too; the difference is that a GPT computes all positions of a layer at once" in corrections(
        EXAMPLES
    )
