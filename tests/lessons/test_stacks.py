"""The comparison of stacks holds and fails when a block or a mask is another."""

from dataclasses import replace

import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import stacks
from nextok.lessons.stacks import EXAMPLES
from nextok.lessons.worked import Example
from nextok.spec import ModelConfig, preset_config
from nextok.spec.shapes import block_shapes

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "values"),
    [("no-cross-attention", {49_984, 16_768, 66_752, 0}), ("gpt-or-bert", {36, 64, 128, True, False})],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_a_block_without_biases_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "block_shapes", lambda config: block_shapes(replace(config, bias=False)))
    assert {"GPT block", "cross-attention and its norm"} <= wrong_now(EXAMPLES, "no-cross-attention")


def test_a_model_that_never_has_a_mask_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(config: ModelConfig, **changes: object) -> ModelConfig:
        return replace(config, mask="none")

    monkeypatch.setattr(stacks, "replace", unmasked)
    assert wrong_now(EXAMPLES, "gpt-or-bert") == {"GPT: pairs attended of 64", "GPT decodes"}


def test_layers_that_share_weights_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    build = stacks.build

    def shared(config: ModelConfig, seed: int) -> object:
        model = build(config, seed)
        model.blocks[1].load_state_dict(model.blocks[0].state_dict())
        return model

    monkeypatch.setattr(stacks, "build", shared)
    assert wrong_now(EXAMPLES, "no-cross-attention") == {"layers with equal first weights"}


def test_bert_is_filled_in() -> None:
    [grid] = worked(EXAMPLES[1]).grids
    bert = {row[0]: row[2] for row in grid.rows}
    assert bert["stack"] == "encoder-only"
    assert bert["attention"] == "bidirectional"
    assert "15 %" in bert["objective"]
    assert bert["fluent generation"] == "not naturally"
    assert preset_config("lesson-a").mask == "causal"


@pytest.mark.parametrize("phrase", ["BERT is encoder-only", "pre-norm came with GPT-2", "not the weights"])
def test_the_slides_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
