"""The tables hold, carry the lessons' numbers, and fail when a shape is wrong."""

from dataclasses import replace
from typing import Any

import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import tables
from nextok.lessons.tables import EXAMPLES
from nextok.lessons.worked import Example
from nextok.spec import ModelConfig, preset_config

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
        ("gpt2-family", {12, 768, 3072, 24, 1024, 16, 4096, 36, 1280, 20, 5120, 48, 1600, 25, 6400, 64}),
        ("gpt2-family", {124_439_808, 354_823_168, 774_030_080, 1_557_611_200}),
        ("gpt2-family", {38_597_376, 786_432, 85_054_464, 1_536}),
        ("family-progression", {12, 768, 512, 40_478, 116_534_784, 48, 1600, 25, 1024, 50_257, 1_557_611_200}),
        ("family-progression", {96, 12_288, 2048, 174_604_259_328, 3.14e23, "no, yes, yes"}),
        ("tied-head", {23.7, 4.9, 124_439_808, 163_037_184, 103_808, 107_008}),
        ("embedding-share", {6.0, 50, 1_536, 50_257, 110_592}),
        ("four-times", {32_768, 33_088, 525_568, 4_722_432, 32, 2}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_the_papers_names_stand_beside_the_counts() -> None:
    [grid] = worked(EXAMPLES[0]).grids
    assert [row[-1] for row in grid.rows] == ["117M", "345M", "762M", "1542M"]


def one_layer_more(name: str, **given: Any) -> ModelConfig:
    config = preset_config(name, **given)
    return replace(config, n_layers=config.n_layers + 1)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("gpt2-family", "XL: parameters"),
        ("family-progression", "GPT-3 (2020): parameters"),
        ("tied-head", "small, tied and untied"),
        ("embedding-share", "GPT-2 small: V against 12 L d"),
    ],
)
def test_a_layer_too_many_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(tables, "preset_config", one_layer_more)
    assert fact in wrong_now(EXAMPLES, name)


def test_a_feed_forward_layer_of_another_width_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ModelConfig", lambda **given: ModelConfig(**given, d_ff=2 * given["d_model"]))
    seen = {"d 64: 8 d^2", "d 256", "feed-forward to attention, matrices", "a block is 12 d^2 + 13 d"}
    assert seen <= wrong_now(EXAMPLES, "four-times")


@pytest.mark.parametrize(
    "phrase",
    [
        "23.7 % of GPT-2 small, 4.9 % of XL and 9.6 %",
        "dominates where V is large against 12 L d",
        "table of the GPT-2 family is missing",
        "tables of the family's progression and of the parameter count are missing",
    ],
)
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
