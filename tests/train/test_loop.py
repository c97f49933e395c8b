"""The loop: when it evaluates and saves, and what numbers that are none do to it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from nextok.checkpoint import RunDirectory, load_snapshot, read_metrics, saved_steps
from nextok.corpus import Batch, Batches
from nextok.errors import NonFiniteError
from nextok.train import Event, Logged, Message, Request, RunOptions, Saved, StepDone, resume, run, saved_options
from nextok.train import loop as loop_module
from nextok.train.config import TrainConfig
from nextok.train.loop import Setting
from nextok.train.objective import Objective
from nextok.train.step import StepResult

MakeOptions = Callable[..., RunOptions]


def setting(steps: int, **train: object) -> Setting:
    unused = cast("Batches", None)
    return Setting(
        run=RunDirectory(Path()), config=TrainConfig(**train), steps=steps, batches=unused,  # type: ignore[arg-type]
        validation=None, tokenizer=None, objective=cast("Objective", None),  # type: ignore[arg-type]
    )  # fmt: skip


def due(asked: Callable[[int], bool], steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if asked(step)]


def test_evaluations_are_ten_a_run_unless_told_and_one_at_the_end() -> None:
    assert due(setting(1000).evaluate_at, 1000) == list(range(100, 1001, 100))
    assert due(setting(3).evaluate_at, 3) == [3]
    assert due(setting(50).evaluate_at, 50) == [20, 40, 50]
    assert due(setting(50, eval_every_steps=200).evaluate_at, 50) == [50]


def test_checkpoints_follow_evaluations_unless_told_and_one_ends_the_run() -> None:
    told = setting(1000, save_every_steps=300)
    assert due(told.save_at, 1000) == [300, 600, 900, 1000]
    assert due(setting(1000).save_at, 1000) == due(setting(1000).evaluate_at, 1000)
    assert due(setting(50, save_every_steps=200).save_at, 50) == [50]


def test_hook_can_stop_the_run_after_a_step_and_it_is_saved(make_options: MakeOptions) -> None:
    options = make_options()
    events: list[Event] = []

    def stop_at_three(event: Event) -> Request | None:
        events.append(event)
        return Request(stop=isinstance(event, StepDone) and event.step == 3, reasons=("enough",) * 0)

    result = run(options, cache=options.out, hooks=[stop_at_three])
    assert result.step == 3
    assert load_snapshot(RunDirectory(options.out))[0].step == 3
    assert [event.step for event in events if isinstance(event, StepDone)] == [1, 2, 3]
    assert [event.step for event in events if isinstance(event, Saved)][-1] == 3
    assert any(isinstance(event, Logged) for event in events)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches 5 and 6 make the loss infinite, as bad data or an overflow would."""
    honest = loop_module.train_step

    def train_step(model, objective, optimizer, batch: list[Batch], *, first_sample, config, **rest):  # type: ignore[no-untyped-def]
        if first_sample // config.batch_size in (5, 6):
            with model.replace({"embed": lambda x_BTD: x_BTD * float("inf")}):
                return honest(model, objective, optimizer, batch, first_sample=first_sample, config=config, **rest)
        return honest(model, objective, optimizer, batch, first_sample=first_sample, config=config, **rest)

    monkeypatch.setattr(loop_module, "train_step", train_step)


@pytest.mark.usefixtures("poisoned")
def test_stop_names_step_and_batch_and_keeps_the_good_checkpoints(make_options: MakeOptions) -> None:
    options = make_options(train={"eval_every_steps": 2})
    with pytest.raises(NonFiniteError, match=r"in step 6 \(samples 20 to 23"):
        run(options, cache=options.out)
    snapshot, warnings = load_snapshot(RunDirectory(options.out))
    assert (snapshot.step, warnings) == (4, [])


@pytest.mark.usefixtures("poisoned")
def test_skip_leaves_the_batch_out_and_says_so(make_options: MakeOptions) -> None:
    options = make_options(train={"non_finite": "skip", "log_every_steps": 1})
    messages: list[str] = []
    result = run(
        options, cache=options.out, hooks=[lambda e: messages.append(e.text) if isinstance(e, Message) else None]
    )
    assert result.step == 20
    assert sum("Skipped" in text for text in messages) == 2
    snapshot, _ = load_snapshot(RunDirectory(options.out))
    assert snapshot.state["updates"] == 18
    rows = read_metrics(RunDirectory(options.out).metrics)
    assert [row["step"] for row in rows if row["train_loss"] is None] == [6, 7]
    assert rows[-1]["val_loss"] < 3


def test_skipping_gives_up_when_it_is_not_the_batches(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "train_step", lambda *_, **__: StepResult(math.nan, math.nan, finite=False))
    with pytest.raises(NonFiniteError, match="in step 11 "):
        run(make_options(train={"non_finite": "skip", "eval_every_steps": 20}), cache=Path())


def test_weights_that_are_no_numbers_are_never_saved(make_options: MakeOptions) -> None:
    train = {"lr": 1e38, "warmup_steps": 0, "schedule": "constant", "eval_every_steps": 1}
    options = make_options(train=train)
    with pytest.raises(NonFiniteError, match="step 1[ ;]"):
        run(options, cache=Path())
    assert not RunDirectory(options.out).weights.exists()
    assert saved_steps(RunDirectory(options.out)) == []
    healthy = replace(saved_options(options.out), train=replace(options.train, lr=1e-3))
    assert resume(healthy).step == 20  # from the start, since nothing was saved


def test_rate_that_destroys_the_model_is_stopped(make_options: MakeOptions) -> None:
    train = {"lr": 1e30, "warmup_steps": 0, "schedule": "constant", "eval_every_steps": 20}
    options = make_options(train=train)
    with pytest.raises(NonFiniteError, match="became (nan|inf)"):
        run(options, cache=options.out)
