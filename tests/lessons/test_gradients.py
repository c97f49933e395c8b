"""The gradient and Adam examples hold, and fail when a gradient or a step is wrong."""

import pytest

from lessons.examples import assert_well_formed, expected, worked, wrong, wrong_now
from nextok.lessons import gradients
from nextok.lessons.gradients import EXAMPLES
from nextok.lessons.worked import Example
from nextok.reference import backward

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", ["blocks.0.attn.qkv.weight", "blocks.1.norm2.bias", "embed.tokens.weight"])
def test_a_gradient_wrong_by_a_thousandth_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def off(*given: object) -> tuple:
        loss, grads = backward(*given)
        return loss, {**grads, name: 1.001 * grads[name]}

    monkeypatch.setattr(gradients, "backward", off)
    assert "largest difference below 1e-7, pushed by 1e-6" in wrong_now(EXAMPLES, "gradients")


def test_a_step_up_the_gradient_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def against(*given: object) -> tuple:
        loss, grads = backward(*given)
        return loss, {name: -grad for name, grad in grads.items()}

    monkeypatch.setattr(gradients, "backward", against)
    assert wrong_now(EXAMPLES, "adam") == {"falls at every step"}


def test_the_first_loss_is_the_pages() -> None:
    assert 4.6551 in expected(EXAMPLES, "adam")
