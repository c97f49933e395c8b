"""Minutes to steps: what was measured decides, and measuring changes nothing."""

import importlib
from collections.abc import Callable

import pytest
import torch

from nextok.corpus import Batches, open_corpus
from nextok.model import build
from nextok.spec import ModelConfig
from nextok.train import RunOptions, run
from nextok.train import calibrate as module
from nextok.train.calibrate import Calibration, Length, calibrate

MakeOptions = Callable[..., RunOptions]


def test_steps_leave_room_for_evaluations_and_the_measurement() -> None:
    measured = Calibration(step_seconds=0.1, eval_seconds=1.0, spent_seconds=5.0)
    assert measured.length_of(105.0, 0) == Length(steps=int((100 * 0.97 - 10) / 0.1), eval_every_steps=0)
    told = measured.length_of(105.0, 50)
    assert told.eval_every_steps == 50
    assert told.steps * 0.1 + (told.steps / 50 + 1) * 1.0 == pytest.approx(97, abs=0.2)


def test_slow_evaluations_take_a_fifth_of_the_budget_and_never_all_of_it() -> None:
    slow = Calibration(step_seconds=0.1, eval_seconds=25.0, spent_seconds=4.0)
    length = slow.length_of(300.0, 0)
    evaluations = -(-length.steps // length.eval_every_steps)
    assert evaluations == 2
    assert length.steps * 0.1 + evaluations * 25 <= 300
    assert length.steps > 2000
    assert Calibration(step_seconds=1.0, eval_seconds=0.0, spent_seconds=0.0).length_of(0.1, 0).steps == 1


def test_measuring_leaves_the_model_as_it_was(make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SECONDS", 0.0)
    options = make_options(steps=1)
    run(options, cache=options.out)
    corpus = open_corpus(options.out / "corpus")
    model = build(ModelConfig.of(options.model, corpus.tokenizer.vocab_size), 1)
    before = [p.detach().clone() for p in model.parameters()]
    measured = calibrate(model, Batches(corpus.train, 16, 1), corpus.validation, options.train, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert 0 < measured.step_seconds < measured.spent_seconds
    assert measured.eval_seconds > 0


def test_minutes_become_steps_that_are_kept_with_the_run(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Calibration(step_seconds=0.5, eval_seconds=0.0, spent_seconds=0.0)
    monkeypatch.setattr(importlib.import_module("nextok.train.run"), "calibrate", lambda *_: measured)
    options = make_options(steps=None, minutes=0.1)
    result = run(options, cache=options.out)
    assert result.steps == result.step == int(6 * 0.97 / 0.5)


def test_tokens_become_steps(make_options: MakeOptions) -> None:
    options = make_options(steps=None, tokens="1k")
    assert run(options, cache=options.out).steps == round(1000 / (4 * 16))
