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
from nextok.model import GPT, IGNORED
from nextok.train.config import TrainConfig
from nextok.train.objective import Objective
from nextok.train.optim import Optimizer


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step measured."""

    loss: float
    """Mean over the valid targets, nats per token, before the step."""
    grad_norm: float
    """Norm of the whole gradient before clipping."""
    finite: bool
    """Whether both are numbers; otherwise nothing was changed."""


def micro_batches(batches: Batches, first_sample: int, config: TrainConfig) -> list[Batch]:
    """Returns the batch that starts at this sample, in pieces of at most `micro_batch_size` sequences."""
    size = config.micro_batch_size or config.batch_size
    offsets = range(0, config.batch_size, size)
    return [batches.batch(first_sample + at, min(size, config.batch_size - at)) for at in offsets]


def train_step(
    model: GPT,
    objective: Objective,
    optimizer: Optimizer,
    batch: Sequence[Batch],
    *,
    lr: float,
    first_sample: int,
    config: TrainConfig,
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
    """
    loss = _accumulate(objective, batch, first_sample)
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip or math.inf).item()
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


def _accumulate(objective: Objective, batch: Sequence[Batch], first_sample: int) -> float:
    """Adds up the gradients of the batch and returns its mean loss."""
    valid = max(1, sum(int((piece.targets_BT != IGNORED).sum()) for piece in batch))
    total, sample = 0.0, first_sample
    for piece in batch:
        loss = objective(piece, sample, 1 / valid)
        loss.backward()
        total += loss.item()
        sample += len(piece.starts_B)
    return total
