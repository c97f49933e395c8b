"""The trained examples hold, and fail when what they compare is the same after all."""

import pytest

from lessons.examples import assert_well_formed, corrections, worked, wrong, wrong_now
from nextok.lessons import behaviour, sentences
from nextok.lessons.behaviour import EXAMPLES
from nextok.lessons.worked import Example

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_a_mask_that_was_never_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "small_cheat", sentences.small_gpt)
    assert {
        "future visible: lower without the mask",
        "past only: lower with the mask",
        "past only, without the mask: worse than ln V",
    } == wrong_now(EXAMPLES, "mask-off")


def test_a_model_that_uses_the_future_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "small_gpt", sentences.small_cheat)
    assert "with the mask: past only equals the same positions of the whole window" in wrong_now(EXAMPLES, "mask-off")


def test_greedy_decoding_that_draws_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = behaviour._continuations(1.0)
    monkeypatch.setattr(behaviour, "_continuations", lambda temperature: sampled)
    assert wrong_now(EXAMPLES, "greedy-or-sampled") == {"different texts of 4, greedy", "greedy repeats more"}


def test_distinct_trigrams_are_counted_per_text() -> None:
    assert behaviour._distinct_trigrams(["a b c a b c a b c"]) == pytest.approx(3 / 7)
    assert behaviour._distinct_trigrams(["a b c d e", "a b c d e"]) == 1.0
    assert behaviour._distinct_trigrams(["one two"]) == 0.0


def test_norms_in_the_same_place_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    learns, stays = (3.2,) * 20 + (1.5,) * 10, (3.2,) * 20 + (2.0,) * 10
    monkeypatch.setattr(behaviour, "_deep_run", lambda place, lr: learns if lr > 5e-3 else stays)
    assert wrong_now(EXAMPLES, "norm-placement") == {
        "at 1e-2 pre-norm is ahead by more than 0.5",
        "post-norm stays at the frequencies of letters",
    }


@pytest.mark.parametrize("phrase", ["pre-norm came with GPT-2", "only memorises"])
def test_the_lessons_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
