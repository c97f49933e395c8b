"""The mask's examples hold, carry the lessons' numbers, and fail when the mask is wrong."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import mask
from nextok.lessons.mask import EXAMPLES
from nextok.lessons.worked import Example

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
        ("mask", {15, 25, 10, 21, 36}),
        ("mask-cost", {37.5, 40.0, 49.95, 48.0}),
        ("attention-row", {3.3594, 2.0866, -1.0663, 2.6557, 1.6797, 1.0433, -0.5332, 1.3279}),
        ("attention-row", {0.3847, 0.6153, 0.0494, 0.1536, 0.7970, 0.1979, 0.4743, 0.2192, 0.1086}),
        ("attention-row", {-0.0835, -0.0235, 0.1744, 2.2983, 0.5568, -0.4163, -0.4427, 0.5114}),
        ("attention-row", {-0.9738, 0.9311, 1.1891, -0.8216, 0.1018, -0.0613, 0.0558, -0.0359}),
        ("attention-row", {0.4270, 0.2260, 0.0467, 0.3003}),
        ("mask-order", {0.4270, 0.2360, 0.7982, 0.6413, 0.1196}),
        ("mask-value", {0.3333, float("-inf"), True}),
        ("mask-page", {6, "1 / 6", 1.0, 15}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def no_mask(size: int, keys: int, device: torch.device) -> Tensor:
    return torch.ones(size, keys, dtype=torch.bool, device=device)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("mask", "ones in the mask for T = 5"), ("mask-cost", "thrown away at T = 4, 5, 1024 (%)")],
)
def test_a_mask_that_lets_everything_through_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(mask, "causal_mask", no_mask)
    assert fact in wrong_now(EXAMPLES, name)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("attention-row", "attn[0]"), ("attention-row", "out[0] is V[0]"), ("mask-order", "row sums, masked after")],
)
def test_attention_without_a_mask_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr("nextok.model.attention.causal_mask", no_mask)
    monkeypatch.setattr(mask, "causal_mask", no_mask)
    assert fact in wrong_now(EXAMPLES, name)


def test_a_page_without_a_mask_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextok.model.attention.causal_mask", no_mask)
    assert {"start state", "row 0, first cell", "black cells"} <= wrong_now(EXAMPLES, "mask-page")


def test_a_softmax_that_gives_nan_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask, "softmax", lambda scores: np.full_like(scores, np.nan))
    assert wrong_now(EXAMPLES, "mask-value") == {"-inf throughout in nextok.reference"}


@pytest.mark.parametrize(
    "phrase",
    [
        "one origin, 0",
        "a fully masked row becomes uniform with -1e9",
        "strictly above the diagonal",
        "renormalise equals",
    ],
)
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
