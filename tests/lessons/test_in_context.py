"""The in-context examples hold, and fail when prompting trains or training does not."""

import pytest
import torch

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import in_context
from nextok.lessons.in_context import EXAMPLES, weights_hash
from nextok.lessons.worked import Example
from nextok.model import GPT, build
from nextok.spec import preset_config

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_the_hash_sees_one_bit_of_one_weight() -> None:
    model = build(preset_config("lesson-a"), seed=0)
    before = weights_hash(model)
    assert weights_hash(build(preset_config("lesson-a"), seed=0)) == before
    with torch.no_grad():
        model.final_norm.bias[3] = torch.nextafter(torch.tensor(0.0), torch.tensor(1.0))
    assert weights_hash(model) != before


def test_two_of_the_statements_are_true_and_one_is_a_lie() -> None:
    statements = [fact for fact in worked(EXAMPLES[0]).facts if fact.what.endswith(".")]
    assert [fact.expected for fact in statements] == [True, True, False]


def test_the_share_is_of_the_whole_rise() -> None:
    assert 0.652 in expected(EXAMPLES, "sudden-metric")


def test_three_terms_are_matched() -> None:
    [grid] = [grid for grid in worked(EXAMPLES[0]).grids if grid.title == "Matching"]
    assert dict(grid.rows)["few-shot"] == "examples in the context"


def test_a_prompt_that_trains_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def trains(model: GPT, ids: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            model.head.weight += 1e-6
        return torch.softmax(model(torch.tensor([ids]))[0, -1], dim=-1).detach()

    monkeypatch.setattr(in_context, "_next", trains)
    assert "Few-shot prompting updates the weights." in wrong_now(EXAMPLES, "two-truths")


def test_fine_tuning_that_does_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_context, "_fine_tuned", lambda model: model)
    assert wrong_now(EXAMPLES, "two-truths") == {"Fine-tuning on the examples changes the weights."}


def test_a_prompt_without_effect_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_context, "_THREE_EXAMPLES", ())
    monkeypatch.setattr(in_context, "_fine_tuned", lambda model: model)
    assert "Examples in the prompt change what comes next." in wrong_now(EXAMPLES, "two-truths")


def test_exact_match_of_ten_is_the_tenth_power() -> None:
    assert {0.0010, 0.0060, 0.0282, 0.1074, 0.3487, 1.0} <= expected(EXAMPLES, "sudden-metric")


@pytest.mark.parametrize("phrase", ["Schaeffer et al. 2023", "2-layer models", "no effect in toy models"])
def test_the_slides_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
