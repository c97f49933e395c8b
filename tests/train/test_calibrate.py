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
from nextok.train.calibrate import Calibration, calibrate

MakeOptions = Callable[..., RunOptions]


def test_steps_leave_room_for_ten_evaluations_and_the_measurement() -> None:
    measured = Calibration(step_seconds=0.1, eval_seconds=1.0, spent_seconds=5.0)
    assert measured.steps_in(105.0) == pytest.approx((100 * 0.97 - 10) / 0.1, abs=1)
    assert measured.steps_in(1.0) == 1


def test_measuring_leaves_the_model_as_it_was(make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SECONDS", 0.0)
    options = make_options(steps=1)
    run(options, cache=options.out)
    corpus = open_corpus(options.out / "corpus")
    model = build(ModelConfig.of(options.model, corpus.tokenizer.vocab_size), 1)
    before = [p.detach().clone() for p in model.parameters()]
    measured = calibrate(model, Batches(corpus.train, 16, 1), corpus.validation, options.train)
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
