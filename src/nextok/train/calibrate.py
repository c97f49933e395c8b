"""How many steps fit into the minutes given, measured on this machine with this model before the run starts.

The measurement trains a copy, so the run itself begins from untouched weights and stays a function of its options.
"""

import copy
import statistics
import time
from dataclasses import dataclass, replace

from nextok.corpus import Batches, TokenSplit
from nextok.evals import score_batches
from nextok.model import GPT, build
from nextok.train.config import TrainConfig
from nextok.train.gradients import distribute
from nextok.train.objective import choose_objective
from nextok.train.optim import Optimizer
from nextok.train.processes import ALONE, Processes
from nextok.train.schedule import learning_rate
from nextok.train.sharded import is_sharded, only_looked_at
from nextok.train.step import micro_batches, train_step

_WARMUP_STEPS = 2  # the first ones allocate memory and choose kernels
_LEAST_STEPS = 3
_MOST_SECONDS = 4.0
_EVAL_TOKENS = 20_000
_EVALUATIONS = 10
_EVAL_SHARE = 0.2  # of the budget, at most
_SPARE = 0.97  # the rest goes to checkpoints, samples and the plot


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """How long a run is, and how often it looks at itself."""

    steps: int
    eval_every_steps: int
    """0: ten times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What this machine does with this model."""

    step_seconds: float
    """Median of the measured steps."""
    eval_seconds: float
    """One evaluation of the whole validation split."""
    spent_seconds: float
    """What the measurement took."""

    def length_of(self, budget_seconds: float, eval_every_steps: int) -> Length:
        """Returns the run that fits into the budget, its evaluations and the measurement included; at least a step.

        Args:
            budget_seconds: For everything.
            eval_every_steps: As in the config; 0 leaves it open: ten evaluations, or fewer where ten would take
                more than a fifth of the budget.
        """
        left = (budget_seconds - self.spent_seconds) * _SPARE
        if eval_every_steps:
            steps = (left - self.eval_seconds) / (self.step_seconds + self.eval_seconds / eval_every_steps)
            return Length(steps=max(1, int(steps)), eval_every_steps=eval_every_steps)
        affordable = int(_EVAL_SHARE * budget_seconds / self.eval_seconds) if self.eval_seconds > 0 else _EVALUATIONS
        evaluations = max(1, min(_EVALUATIONS, affordable))
        steps = max(1, int((left - evaluations * self.eval_seconds) / self.step_seconds))
        return Length(steps=steps, eval_every_steps=0 if evaluations == _EVALUATIONS else -(-steps // evaluations))


def calibrate(
    model: GPT,
    batches: Batches,
    validation: TokenSplit | None,
    config: TrainConfig,
    budget_seconds: float,
    processes: Processes = ALONE,
) -> Calibration:
    """Returns the measured times of a step and an evaluation; the model is not changed.

    Several processes do it together. It takes four seconds, or a tenth of the budget if that is less, but always a few
    steps.
    """
    started = time.perf_counter()
    most_seconds = min(_MOST_SECONDS, budget_seconds / 10)
    scratch = _copy(model, config).train()
    gradients = distribute(scratch, config, processes)
    optimizer = Optimizer(scratch, config)
    plain = replace(config, compile=False)
    objective = choose_objective(scratch, plain, micro_batches(batches, 0, config, processes)[0], [])
    times: list[float] = []
    while processes.any(len(times) < _WARMUP_STEPS + _LEAST_STEPS or time.perf_counter() - started < most_seconds):
        begun = time.perf_counter()
        first_sample = len(times) * config.batch_size
        batch = micro_batches(batches, first_sample, config, processes)
        lr = learning_rate(len(times), 1000, config)
        train_step(
            scratch, objective, optimizer, batch, lr=lr, first_sample=first_sample, config=config, gradients=gradients
        )
        times.append(time.perf_counter() - begun)
    return Calibration(
        step_seconds=statistics.median(times[_WARMUP_STEPS:]),
        eval_seconds=_eval_seconds(scratch, validation, processes),
        spent_seconds=time.perf_counter() - started,
    )


def _copy(model: GPT, config: TrainConfig) -> GPT:
    """Returns a model of the same size; one that is cut over processes cannot be copied."""
    if not is_sharded(model):
        return copy.deepcopy(model)
    return build(model.config, config.seed).to(next(model.parameters()).device)


def _eval_seconds(model: GPT, validation: TokenSplit | None, processes: Processes) -> float:
    if validation is None:
        return 0.0
    begun = time.perf_counter()
    with only_looked_at(model):
        scores = score_batches(model, validation, limit_tokens=_EVAL_TOKENS)
    read = sum(score.positions for score in scores)
    return (time.perf_counter() - begun) * len(validation) / read / processes.world
