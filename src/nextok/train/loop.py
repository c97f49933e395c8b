"""The loop: steps, and between them evaluations, lines of metrics, samples and checkpoints.

What is learned is a function of (config, seed, corpus) alone: hooks see records, evaluation draws nothing from the
streams of training, and a run that stops anywhere goes on with the same bits.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nextok import config as plain
from nextok.checkpoint import RunDirectory
from nextok.corpus import Batches, TokenSplit
from nextok.errors import NonFiniteError
from nextok.interop import write_weights_file
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer
from nextok.train.config import TrainConfig
from nextok.train.evaluation import evaluate
from nextok.train.events import Hook, Logged, Message, Request, Sampled, Saved, StepDone, emit
from nextok.train.gradients import Gradients
from nextok.train.lora import merged_arrays, training_flops_per_token, write_adapters
from nextok.train.objective import Objective
from nextok.train.processes import Processes
from nextok.train.samples import write_sample
from nextok.train.saving import save_state
from nextok.train.schedule import learning_rate
from nextok.train.sharded import held, is_sharded, whole_model, whole_weights
from nextok.train.state import TrainState
from nextok.train.step import StepResult, micro_batches, non_finite_error, train_step

_LEAST_EVAL_STEPS = 20  # between evaluations of short runs that say nothing about them
_MOST_SKIPS = 10  # in a row; then it is not the batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The part of a run that does not change."""

    run: RunDirectory
    config: TrainConfig
    steps: int
    batches: Batches
    validation: TokenSplit | None
    tokenizer: Tokenizer
    objective: Objective
    starts_from_model: bool = False
    """The first weights are worth something: they are measured and saved before the first step."""
    gradients: Gradients = Gradients()
    """How those of several processes add up."""

    @property
    def processes(self) -> Processes:
        """Returns the processes that train together; every one of them runs the loop, in step with the others."""
        return self.gradients.processes

    def evaluate_at(self, step: int) -> bool:
        """Whether the validation loss is measured after this step: at the end, and about ten times if not told."""
        every = self.config.eval_every_steps or max(_LEAST_EVAL_STEPS, -(-self.steps // 10))
        return step == self.steps or step % every == 0

    def save_at(self, step: int) -> bool:
        """Whether a checkpoint follows this step, whatever was measured."""
        every = self.config.save_every_steps
        return step == self.steps or (step % every == 0 if every else self.evaluate_at(step))

    def writes_samples(self, model: ModelConfig) -> bool:
        """Whether samples are wanted and possible: a model that sees the future cannot write."""
        return self.config.sample_tokens > 0 and model.mask == "causal"


def train(state: TrainState, setting: Setting, hooks: Sequence[Hook]) -> Request:
    """Trains to the last step, or to the first request to stop; returns that request.

    Raises:
        NonFiniteError: if loss, gradient or weights became NaN or infinite; nothing of that is saved.
        DiskError: if a checkpoint could not be written; the one before is kept.
    """
    progress = _Progress(state, setting)
    if state.step == 0 and setting.starts_from_model:
        _measure_start(state, setting, hooks)
    state.model.train()
    while state.step < setting.steps:
        result = _step(state, setting, hooks, progress)
        request = _agreed(emit(_step_done(state, setting, result), hooks), setting.processes)
        if state.step == setting.config.pause_after_steps:
            request |= Request(stop=True, reasons=("pause_after_steps",))
        stopping = request.stop and state.step < setting.steps
        if stopping:
            emit(Message(text=f"Stopping after step {state.step:,} ({', '.join(request.reasons)}): saving."), hooks)
        due = setting.evaluate_at(state.step)
        measured, best = _evaluate(state, setting) if due else ({}, False)
        if due or stopping or state.step % setting.config.log_every_steps == 0:
            emit(Logged(record=progress.line() | measured), hooks)
        if best or stopping or setting.save_at(state.step):
            _save(state, setting, hooks, best=best)
        if due and setting.writes_samples(state.model.config):
            _sample(state, setting, hooks)
        if stopping:
            return request
    return Request()


@dataclass(slots=True)
class _SinceLastLine:
    """What a line of metrics sums up."""

    losses: list[float] = field(default_factory=list)
    grad_norm: float | None = None
    lr: float = 0.0
    steps: int = 0
    busy_s: float = 0.0


class _Progress:
    """Makes the lines of metrics: of the steps since the last line, and of the whole run."""

    def __init__(self, state: TrainState, setting: Setting) -> None:
        self._state, self._setting = state, setting
        self._flops_per_token = training_flops_per_token(state.model)
        self._batch_tokens = setting.config.batch_size * state.model.config.context
        self._started, self._before = time.perf_counter(), state.seconds
        self._since = _SinceLastLine()
        self.skipped_in_a_row = 0

    def add(self, result: StepResult, lr: float, seconds: float, *, has_target: bool) -> None:
        self._state.seconds = self._before + time.perf_counter() - self._started
        since = self._since
        since.lr, since.steps, since.busy_s = lr, since.steps + 1, since.busy_s + seconds
        self.skipped_in_a_row = 0 if result.finite else self.skipped_in_a_row + 1
        if result.finite and has_target:
            since.losses.append(result.loss)
            since.grad_norm = result.grad_norm

    def line(self) -> dict[str, Any]:
        since, self._since = self._since, _SinceLastLine()
        tokens_per_s = since.steps * self._batch_tokens / since.busy_s
        samples = self._state.step * self._setting.config.batch_size
        return {
            "step": self._state.step,
            "tokens": self._state.step * self._batch_tokens,
            "epoch": round(self._setting.batches.order.epoch(samples), 4),
            "seconds": round(self._state.seconds, 3),
            "train_loss": sum(since.losses) / len(since.losses) if since.losses else None,
            "lr": since.lr,
            "grad_norm": since.grad_norm,
            "tokens_per_s": round(tokens_per_s, 1),
            "flops_per_s": round(tokens_per_s * self._flops_per_token),
        }


def _step(state: TrainState, setting: Setting, hooks: Sequence[Hook], progress: _Progress) -> StepResult:
    config = setting.config
    started = time.perf_counter()
    first_sample = state.step * config.batch_size
    batch = micro_batches(setting.batches, first_sample, config, setting.processes)
    lr = learning_rate(state.step, setting.steps, config)
    result = train_step(
        state.model,
        setting.objective,
        state.optimizer,
        batch,
        lr=lr,
        first_sample=first_sample,
        config=config,
        gradients=setting.gradients,
    )
    if not result.finite:
        whole_batch = micro_batches(setting.batches, first_sample, config)
        error = non_finite_error(result, state.step + 1, first_sample, whole_batch)
        if config.non_finite == "stop" or progress.skipped_in_a_row >= _MOST_SKIPS:
            raise error
        emit(Message(text=f"{error.message} Skipped.", warning=True), hooks)
    state.step += 1
    state.updates += result.finite
    if result.finite and state.average is not None:
        state.average.update(state.updates)
    has_target = any(piece.n_targets for piece in batch)  # a batch of nothing but prompts has no loss and no gradient
    progress.add(result, lr, time.perf_counter() - started, has_target=has_target)
    return result


def _agreed(request: Request, processes: Processes) -> Request:
    """Returns what the hooks of any process ask for: all stop after the same step, whichever got the signal."""
    if not processes.any(request != Request()):
        return request
    for each in processes.gathered(plain.to_mapping(request)):
        request |= plain.from_mapping(Request, each)
    return replace(request, reasons=tuple(dict.fromkeys(request.reasons)))


def _step_done(state: TrainState, setting: Setting, result: StepResult) -> StepDone:
    return StepDone(
        step=state.step,
        steps=setting.steps,
        train_loss=result.loss,
        grad_norm=result.grad_norm,
        skipped=not result.finite,
    )


def _measure_start(state: TrainState, setting: Setting, hooks: Sequence[Hook]) -> None:
    """Tells the loss that training is to lower, and saves the model, so that the run goes on without its source."""
    measured, best = _evaluate(state, setting)
    if measured:
        emit(Logged(record={"step": 0, "tokens": 0, "epoch": 0.0, "seconds": 0.0, **measured}), hooks)
    _save(state, setting, hooks, best=best)


def _evaluate(state: TrainState, setting: Setting) -> tuple[dict[str, Any], bool]:
    """Returns what was measured, and whether it is the best so far; without a validation split, the last is."""
    if setting.validation is None:
        return {}, True
    with state.evaluated():
        report = evaluate(state.model, setting.validation, setting.processes)
    if not math.isfinite(report.nats_per_token):
        raise _lost(state, "validation loss")
    best = state.best_loss is None or report.nats_per_token < state.best_loss
    if best:
        state.best_loss, state.best_step = report.nats_per_token, state.step
    measured = {"val_loss": report.nats_per_token, "val_bits_per_byte": report.bits_per_byte}
    return measured, best


def _save(state: TrainState, setting: Setting, hooks: Sequence[Hook], *, best: bool) -> None:
    """Writes the run's own weights if they are the best or the first, then the checkpoint that remembers it.

    In this order, so that a kill between the two is made good when the step is taken again.
    """
    processes = setting.processes
    finite = all(bool(held(parameter).isfinite().all()) for parameter in state.model.parameters())
    if processes.any(not finite):
        raise _lost(state, "weights")
    if processes.from_leader(best or not setting.run.weights.exists()):
        with state.evaluated():
            _write_model(state, setting)
    folder = save_state(state, setting.run, processes, keep_last=setting.config.keep_last, best=best)
    emit(Saved(step=state.step, folder=folder, best=best), hooks)


def _write_model(state: TrainState, setting: Setting) -> None:
    """Writes the model as others read it: whole, and with its adapters merged."""
    model = state.model
    weights = whole_weights(model, setting.processes) if is_sharded(model) else merged_arrays(model)
    if setting.processes.leads:
        write_weights_file(setting.run.path, model.config, weights)
        write_adapters(setting.run.path, model)


def _sample(state: TrainState, setting: Setting, hooks: Sequence[Hook]) -> None:
    """Lets the leading process write a text; the others go on to the next step and wait there."""
    with state.evaluated():
        weights = whole_weights(state.model, setting.processes) if is_sharded(state.model) else {}
        if setting.processes.leads:
            model = whole_model(state.model, weights)
            text = write_sample(model, setting.tokenizer, state.step, setting.config)
            emit(Sampled(step=state.step, text=text), hooks)


def _lost(state: TrainState, what: str) -> NonFiniteError:
    return NonFiniteError(
        f"The {what} became NaN or infinite in step {state.step}; the checkpoints before it are kept.",
        "Resume with a lower --lr.",
    )
