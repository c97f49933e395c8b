"""Cached decoding equals recomputing and costs less; past the context the cache is worth nothing."""

import pytest
import torch

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import caching
from nextok.lessons.caching import EXAMPLES
from nextok.lessons.tinygpt import lesson_loop, tiny_gpt
from nextok.lessons.worked import Example
from nextok.model import GPT

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("name", "values"), [("kv-cache", {25, 7, 35}), ("cache-and-window", {3, 1, 8})])
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_recomputing_in_place_of_the_cache_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def recomputed(model: GPT, ids: tuple[int, ...], new_tokens: int) -> tuple[int, ...]:
        return (*ids, *(int(logits_V.argmax()) for logits_V in lesson_loop(model, ids, new_tokens)))

    monkeypatch.setattr(caching, "greedy", recomputed)
    counted = {"token passes: recomputed, cached", "scores a head and layer: recomputed, cached"}
    assert counted <= wrong_now(EXAMPLES, "kv-cache")
    assert wrong_now(EXAMPLES, "cache-and-window") == {"tokens read at each of 8 steps"}


def test_slow_steps_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([2.0, 1.0])
    monkeypatch.setattr(caching, "fastest", lambda run: next(seconds))
    monkeypatch.setattr(caching, "_HELD_LENGTHS", (8,))
    assert wrong_now(EXAMPLES, "kv-cache") == {"a cached step at 512 tokens is faster than a pass"}


def test_a_model_without_positions_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_gpt()
    torch.nn.init.zeros_(model.embed.get_parameter("positions.weight"))
    monkeypatch.setattr(caching, "tiny_gpt", lambda: model)
    assert "keys after the slide: change in both blocks" in wrong_now(EXAMPLES, "cache-and-window")


@pytest.mark.parametrize("phrase", ["O(T^2) token passes and O(T^3) attention", "while positions stay"])
def test_the_pages_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
