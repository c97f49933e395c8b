"""TinyGPT's counts hold, carry the lesson's numbers, and fail for another model."""

from dataclasses import replace

import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import tinygpt
from nextok.lessons.tinygpt import EXAMPLES
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
        ("parameters", {3_200, 512, 16_640, 33_088, 256, 49_984, 99_968, 128, 107_008, 103_808, 61.8, 31.1}),
        ("flops", {101_504, 621_312, 642_048}),
        ("milestone-1", {2, 8, 64, 16_640}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


@pytest.mark.parametrize(("name", "fact"), [("parameters", "total"), ("flops", "parameters that multiply")])
def test_a_third_layer_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, fact: str) -> None:
    monkeypatch.setattr(tinygpt, "tiny_config", lambda **parts: replace(preset_config("lesson-a"), n_layers=3, **parts))
    assert fact in wrong_now(EXAMPLES, name)


def test_attention_without_a_mask_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tinygpt.tiny_gpt(mask="none")
    monkeypatch.setattr(tinygpt, "tiny_gpt", lambda: model)
    seen = {"row 0 is 1 on itself", "weight on the future", "change at 0-4 when 5-7 change"}
    assert wrong_now(EXAMPLES, "milestone-1") == seen


def test_the_programs_greedy_loop_and_the_cached_one_agree() -> None:
    model = tinygpt.tiny_gpt()
    steps = tinygpt.lesson_loop(model, tinygpt.PROMPT, 12)
    assert tinygpt.greedy(model, tinygpt.PROMPT, 12) == (5, 12, 3, *(int(logits_V.argmax()) for logits_V in steps))


def test_the_misnamed_variable_is_corrected() -> None:
    assert "it holds a TinyGPT of 107,008 parameters; GPT-2 small has 124,439,808" in corrections(EXAMPLES)
