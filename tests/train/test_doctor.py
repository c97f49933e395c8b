"""The doctor: every illness told once in its course, with a value to change; nothing told of a healthy run."""

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.errors import NonFiniteError
from nextok.train import Event, Finding, Logged, RunOptions, StepDone, resume, run, run_options, saved_options
from nextok.train import loop as loop_module
from nextok.train.config import TrainConfig
from nextok.train.doctor import Doctor
from nextok.train.symptoms import Case

LOG_V = math.log(1024)
CLASSIC = TrainConfig(lr=1e-3, warmup_steps=100, schedule="cosine")


def case_of(steps: int, **train: Any) -> Case:
    values = {"lr": 1e-3, "warmup_steps": 20, "schedule": "cosine", **train}
    return Case(config=TrainConfig(**values), steps=steps, vocab_size=1024, dropout=0.0)


def watch(
    losses: Sequence[float],
    *,
    grad_norms: Callable[[int], float] = lambda step: 1.0,
    val_losses: Callable[[int], float] | None = None,
    doctor: Doctor | None = None,
    **train: Any,
) -> list[Finding]:
    """Returns what the doctor says of a run with these losses; a NaN is a batch that was left out."""
    steps = len(losses)
    doctor = doctor or Doctor(case_of(steps, **train))
    found: list[Finding] = []
    for step, loss in enumerate(losses, start=1):
        events: list[Event] = [
            StepDone(step=step, steps=steps, train_loss=loss, grad_norm=grad_norms(step), skipped=math.isnan(loss))
        ]
        if val_losses is not None and step % (steps // 10) == 0:
            events.append(Logged(record={"step": step, "val_loss": val_losses(step)}))
        for event in events:
            request = doctor(event)
            found += request.tell if request is not None else ()  # type: ignore[arg-type]
    return found


def kinds(found: Sequence[Finding]) -> list[str]:
    return [each.kind for each in found]


def healthy(step: int, *, floor: float = 2.0, power: float = 0.5, half: float = 30.0) -> float:
    """A power law from log V down to the floor: how losses of language models fall."""
    return floor + (LOG_V - floor) * (1 + step / half) ** -power


def noisy(curve: Callable[[int], float], steps: int, noise: float, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [curve(step) + draw.gauss(0, noise) for step in range(1, steps + 1)]


# --- a healthy run hears nothing


@settings(max_examples=40)
@given(
    st.sampled_from([60, 300, 1000, 2500]), st.floats(0.0, 0.3), st.floats(0.2, 3.0), st.floats(0.3, 0.8),
    st.floats(10, 40), st.sampled_from(["cosine", "wsd", "linear"]), st.integers(0, 10**6),
)  # fmt: skip
def test_a_healthy_curve_with_noise_is_left_in_peace(
    steps: int, noise: float, floor: float, power: float, half: float, schedule: str, seed: int
) -> None:
    draw = random.Random(seed)

    def curve(step: int) -> float:
        return healthy(step, floor=floor, power=power, half=half)

    found = watch(
        noisy(curve, steps, noise, seed),
        grad_norms=lambda step: (0.5 + 5 * math.exp(-step / 20)) * math.exp(draw.gauss(0, 0.3)),
        val_losses=lambda step: curve(step) + 0.1 + draw.gauss(0, 0.003),
        schedule=schedule,
    )
    assert found == []


@pytest.mark.parametrize(
    ("recipe", "steps"),
    [("classic", 120), ("modern", 120), pytest.param("classic", 600, marks=pytest.mark.slow),
     pytest.param("modern", 400, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_real_run_of_each_recipe_is_left_in_peace(
    recipe: str, steps: int, tmp_path: Path, shared_data: Callable[[str], Path]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(shared_data("tinyshakespeare.txt").read_text(encoding="utf-8")[:60_000], encoding="utf-8")
    train = {"sample_tokens": 0, "threads": 1, "warmup_steps": 30, "save_every_steps": steps}
    values = {"sources": (str(text),), "out": str(tmp_path / "run"), "recipe": recipe, "tokenizer": "char"}
    if steps == 120:  # a smaller one takes seconds, not a minute
        values |= {"model": {"n_layers": 2, "d_model": 64, "n_heads": 4, "context": 32}}
        train |= {"batch_size": 12, "lr": 4e-3}
    result = run(run_options({**values, "steps": steps, "train": train}), cache=tmp_path)
    assert result.val_loss is not None
    assert result.val_loss < 3
    assert not RunDirectory(result.path).findings.exists()


# --- every illness is told once


def test_a_jump_is_told_at_once_with_half_the_rate() -> None:
    losses = noisy(healthy, 400, 0.05)
    losses[299] = 9.0
    (found,) = watch(losses, grad_norms=lambda step: 0.3)
    assert (found.step, found.kind) == (300, "spike")
    assert "jumped to 9.00" in found.text
    assert "--lr 0.0005 or --grad-clip 0.3" in found.advice
    assert "--grad-clip" not in watch(losses, grad_norms=lambda step: 2.0)[0].advice  # it clips already


def test_jumps_that_come_back_are_told_as_many_once() -> None:
    losses = noisy(healthy, 400, 0.05)
    for at in range(200, 290, 10):
        losses[at : at + 3] = [8.0, 7.0, 6.5]
    found = watch(losses)
    assert kinds(found) == ["spike", "spikes"]
    assert "jumped 5 times since step 201" in found[1].text


def test_batches_left_out_are_told_when_they_are_many() -> None:
    losses = noisy(healthy, 400, 0.05)
    losses[100] = losses[250] = math.nan
    assert watch(losses) == []
    for at in (300, 320, 340, 360):
        losses[at] = math.nan
    (found,) = watch(losses, precision="bf16")
    assert (found.step, found.kind) == (321, "skips")
    assert "--lr 0.0005 or --precision fp32" in found.advice


def test_a_loss_that_rises_for_good_is_told() -> None:
    losses = noisy(lambda step: healthy(min(step, 200)) + max(0, step - 200) * 0.01, 400, 0.05)
    (found,) = watch(losses)
    assert found.kind == "diverging"
    assert 200 < found.step <= 270
    assert "start again with --lr 0.0005" in found.advice


def test_a_gradient_that_blows_up_is_told_before_the_loss_is_lost() -> None:
    losses = noisy(lambda step: healthy(min(step, 200)), 250, 0.05)
    (found,) = watch(losses, grad_norms=lambda step: 0.5 if step < 200 else 40.0)
    assert (found.kind, found.step) == ("blow-up", 220)
    assert "norm is 40, and was around 0.5" in found.text


def test_a_loss_that_swings_is_told() -> None:
    draw = random.Random(3)
    zigzag = [healthy(step) + 0.4 * (-1) ** step * (step > 200) + draw.gauss(0, 0.02) for step in range(1, 401)]
    assert kinds(watch(zigzag)) == ["swinging"]
    wide = [healthy(step) + draw.gauss(0, 0.03 if step < 200 else 0.6) for step in range(1, 401)]
    found = [each for each in watch(wide) if each.kind == "swinging"]
    assert len(found) == 1
    assert "times as far as before" in found[0].text


@pytest.mark.parametrize(
    ("lr", "said"), [(1e-6, "too low: --lr 1e-05"), (0.1, "too high: --lr 0.01"), (1e-3, "Look at the text")]
)
def test_a_loss_that_stays_at_that_of_guessing_is_told(lr: float, said: str) -> None:
    (found,) = watch(noisy(lambda step: LOG_V + 0.01, 400, 0.02), lr=lr)
    assert (found.kind, found.step) == ("guessing", 130)
    assert "no better than guessing among 1,024 tokens (log V = 6.93)" in found.text
    assert said in found.advice


def test_a_gradient_that_vanished_is_told_unless_all_is_learned() -> None:
    grad_norms = lambda step: 1.0 if step < 100 else 1e-7  # noqa: E731 - one line reads better
    losses = noisy(lambda step: healthy(min(step, 100)), 300, 0.05)
    (found,) = watch(losses, grad_norms=grad_norms)
    assert found.kind == "dead"
    assert "(1e-07)" in found.text
    learned = noisy(lambda step: 0.01 + 6 * math.exp(-step / 8), 300, 0.0005)
    assert watch(learned, grad_norms=grad_norms) == []


def test_validation_that_rises_while_training_falls_is_told_with_the_best_step() -> None:
    def val_loss(step: int) -> float:
        return healthy(min(step, 500)) + 0.1 + max(0, step - 500) * 2e-4

    (found,) = watch(noisy(healthy, 1000, 0.05), val_losses=val_loss)
    assert (found.kind, found.step) == ("overfitting", 800)
    assert "since step 500 validation has risen" in found.text
    assert "--dropout 0.1, or --steps 500" in found.advice


def test_a_loss_that_stands_still_for_a_third_of_the_run_is_told() -> None:
    found = watch(noisy(lambda step: healthy(min(step, 100)), 1000, 0.05))
    assert kinds(found) == ["plateau"]
    assert found[0].step < 500
    assert "--lr 0.0005" in found[0].advice


def test_a_loss_that_still_falls_in_a_straight_line_is_told_at_the_end() -> None:
    (found,) = watch(noisy(lambda step: LOG_V - 0.002 * step, 400, 0.02), lr=1e-5, schedule="constant")
    assert (found.kind, found.step) == ("straight", 400)
    assert "--lr 3e-05, or --steps 800" in found.advice


def test_odd_lengths_and_values_never_raise() -> None:
    for losses in ([3.0], [0.0] * 120, [1e30] * 120, [math.nan] * 30, [1e-9] * 300):
        watch(losses, val_losses=None if len(losses) < 10 else lambda step: 0.0)
    assert Doctor(case_of(10))(Logged(record={"step": 1})) is None


# --- in a run


@pytest.mark.parametrize("pause", [0, 105])
def test_findings_are_kept_with_the_run_and_not_told_again_by_a_resumed_one(
    pause: int, make_options: Callable[..., RunOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = loop_module.train_step

    def train_step(*arguments: Any, first_sample: int, **rest: Any) -> Any:
        result = honest(*arguments, first_sample=first_sample, **rest)
        return loop_module.StepResult(30.0, 1.0, finite=True) if first_sample // 4 in (99, 185) else result

    monkeypatch.setattr(loop_module, "train_step", train_step)
    told: list[Event] = []
    options = make_options(steps=200, train={"pause_after_steps": pause, "eval_every_steps": 200, "lr": 1e-2})
    run(options, cache=options.out, hooks=[told.append])
    if pause:
        resume(saved_options(options.out), hooks=[told.append])
    findings = [event for event in told if isinstance(event, Finding)]
    assert [(each.kind, each.step) for each in findings] == [("spike", 100)]
    lines = RunDirectory(options.out).findings.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [100]
    assert set(json.loads(lines[0])) == {"step", "kind", "text", "advice"}


def test_what_was_found_after_the_checkpoint_is_found_again(make_options: Callable[..., RunOptions]) -> None:
    options = make_options(train={"pause_after_steps": 10})
    run(options, cache=options.out)
    later = {"step": 15, "kind": "spike", "text": "", "advice": ""}
    RunDirectory(options.out).findings.write_text(json.dumps(later) + "\n", encoding="utf-8")
    resume(saved_options(options.out))
    assert read_metrics(RunDirectory(options.out).findings) == []


def test_the_end_by_a_number_that_is_none_is_kept_too(
    make_options: Callable[..., RunOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    none = loop_module.StepResult(math.nan, math.nan, finite=False)
    monkeypatch.setattr(loop_module, "train_step", lambda *_, **__: none)
    options = make_options()
    with pytest.raises(NonFiniteError):
        run(options, cache=options.out)
    (kept,) = read_metrics(RunDirectory(options.out).findings)
    assert (kept["kind"], kept["step"]) == ("non-finite", 1)
    assert kept["advice"] == f"Resume with --lr {options.train.lr / 2:.2g}."
