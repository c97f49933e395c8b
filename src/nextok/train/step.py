"""One optimizer step: gradients of a batch, accumulated over micro-batches, clipped, applied.

The gradient is that of the mean over all valid targets of the batch, however it is cut into micro-batches: each adds
its summed loss divided by the count of the whole batch, never a mean of means.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nextok.corpus import Batch, Batches
from nextok.errors import NonFiniteError
from nextok.model import GPT
from nextok.train.config import TrainConfig
from nextok.train.gradients import Gradients
from nextok.train.objective import Objective
from nextok.train.optim import Optimizer
from nextok.train.processes import ALONE, Processes
from nextok.train.sharded import whole


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step measured."""

    loss: float
    """Mean over the valid targets, nats per token, before the step."""
    grad_norm: float
    """Norm of the whole gradient before clipping."""
    finite: bool
    """Whether both are numbers; otherwise nothing was changed."""


_ALONE = Gradients()


def micro_batches(
    batches: Batches, first_sample: int, config: TrainConfig, processes: Processes = ALONE
) -> list[Batch]:
    """Returns this process's share of the batch that starts at this sample, in pieces of `micro_batch_size` or less.

    The shares are consecutive: joined in the order of the processes they are the batch, however many there are.
    """
    begin, count = processes.share(config.batch_size)
    size = config.micro_batch_size or count
    return [batches.batch(first_sample + begin + at, min(size, count - at)) for at in range(0, count, size)]


def train_step(
    model: GPT,
    objective: Objective,
    optimizer: Optimizer,
    batch: Sequence[Batch],
    *,
    lr: float,
    first_sample: int,
    config: TrainConfig,
    gradients: Gradients = _ALONE,
) -> StepResult:
    """Changes the weights by one step and returns what was measured.

    Args:
        model: In training mode.
        objective: Its loss, from `choose_objective`.
        optimizer: Over the model's parameters.
        batch: In pieces that fit, from `micro_batches`.
        lr: Learning rate of this step.
        first_sample: Position of the batch in the run; with the seed it decides dropout.
        config: Clipping.
        gradients: How they are added up over processes; the batch is then this one's share.
    """
    loss = _accumulate(objective, batch, first_sample, config, gradients)
    grad_norm = whole(torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip or math.inf)).item()
    finite = math.isfinite(loss) and math.isfinite(grad_norm)
    if finite:
        optimizer.step(lr)
    optimizer.zero_grad()
    return StepResult(loss, grad_norm, finite)


def non_finite_error(result: StepResult, step: int, first_sample: int, batch: Sequence[Batch]) -> NonFiniteError:
    """Returns the error that names the step, the batch and where in the corpus it came from."""
    what = "loss" if not math.isfinite(result.loss) else "gradient"
    value = result.loss if what == "loss" else result.grad_norm
    starts = np.concatenate([piece.starts_B for piece in batch])
    return NonFiniteError(
        f"The {what} became {value} in step {step} (samples {first_sample} to {first_sample + len(starts) - 1}, "
        f"windows at tokens {', '.join(str(start) for start in starts[:4])}{', ...' if len(starts) > 4 else ''}); "
        "the checkpoints before it are kept.",
        "Resume with a lower --lr, or with --non-finite skip to leave such batches out.",
    )


def _accumulate(
    objective: Objective, batch: Sequence[Batch], first_sample: int, config: TrainConfig, gradients: Gradients
) -> float:
    """Adds up the gradients of the batch, over all processes, and returns its mean loss."""
    processes = gradients.processes
    valid = max(1, processes.total(sum(piece.n_targets for piece in batch)))
    total, sample = 0.0, first_sample + processes.share(config.batch_size)[0]
    for piece in batch:
        loss = objective(piece, sample, 1 / valid)
        gradients.backward(loss, last=piece is batch[-1])
        total += loss.item()
        sample += len(piece.starts_B)
    return processes.total(total)
