"""How many steps fit into the minutes given, measured on this machine with this model before the run starts.

The measurement trains a copy, so the run itself begins from untouched weights and stays a function of its options.
"""

import copy
import statistics
import time
from dataclasses import dataclass

from nextok.corpus import Batches, TokenSplit
from nextok.evals import evaluate_loss
from nextok.model import GPT
from nextok.train.config import TrainConfig
from nextok.train.optim import make_optimizer
from nextok.train.schedule import learning_rate
from nextok.train.step import micro_batches, train_step

_WARMUP_STEPS = 2  # the first ones allocate memory and choose kernels
_MOST_SECONDS = 4.0
_EVAL_TOKENS = 20_000
_EVALUATIONS = 10
_SPARE = 0.97  # the rest goes to checkpoints, samples and the plot


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What this machine does with this model."""

    step_seconds: float
    """Median of the measured steps."""
    eval_seconds: float
    """One evaluation of the whole validation split."""
    spent_seconds: float
    """What the measurement took."""

    def steps_in(self, seconds: float) -> int:
        """Returns the steps that fit, ten evaluations and the measurement itself included; at least 1."""
        left = (seconds - self.spent_seconds) * _SPARE - _EVALUATIONS * self.eval_seconds
        return max(1, int(left / self.step_seconds))


def calibrate(model: GPT, batches: Batches, validation: TokenSplit | None, config: TrainConfig) -> Calibration:
    """Returns the measured times of a step and an evaluation; the model is not changed."""
    started = time.perf_counter()
    scratch = copy.deepcopy(model).train()
    optimizer = make_optimizer(scratch, config)
    times: list[float] = []
    while len(times) < _WARMUP_STEPS + 3 or time.perf_counter() - started < _MOST_SECONDS:
        begun = time.perf_counter()
        first_sample = len(times) * config.batch_size
        batch = micro_batches(batches, first_sample, config)
        lr = learning_rate(len(times), 1000, config)
        train_step(scratch, scratch, optimizer, batch, lr=lr, first_sample=first_sample, config=config)
        times.append(time.perf_counter() - begun)
    return Calibration(
        step_seconds=statistics.median(times[_WARMUP_STEPS:]),
        eval_seconds=_eval_seconds(scratch, validation),
        spent_seconds=time.perf_counter() - started,
    )


def _eval_seconds(model: GPT, validation: TokenSplit | None) -> float:
    if validation is None:
        return 0.0
    begun = time.perf_counter()
    report = evaluate_loss(model, validation, limit_tokens=_EVAL_TOKENS)
    return (time.perf_counter() - begun) * len(validation) / report.tokens
