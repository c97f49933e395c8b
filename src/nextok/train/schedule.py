"""The learning rate of each step.

Steps count from 0 to `steps` - 1. With W warm-up steps the rate rises as lr (step + 1) / (W + 1), so the first step
already learns, reaches lr exactly at step W, and ends at lr x min_lr_fraction exactly in the last step. Where the
warm-up fills the whole run there is nothing left to fall.
"""

import math

from nextok.train.config import TrainConfig


def learning_rate(step: int, steps: int, config: TrainConfig) -> float:
    """Returns the learning rate of this step.

    Args:
        step: From 0; steps past the end keep the last rate.
        steps: Length of the run.
        config: Peak, minimum, warm-up and shape.
    """
    warmup = min(config.warmup_steps, steps - 1)
    if step < warmup:
        return config.lr * (step + 1) / (warmup + 1)
    left = steps - 1 - warmup
    progress = min(1.0, (step - warmup) / left) if left > 0 else 0.0
    least = config.lr * config.min_lr_fraction
    return least + (config.lr - least) * _height(progress, config)


def _height(progress: float, config: TrainConfig) -> float:
    """How much of the way down is left: 1 at progress 0, and 0 at progress 1 unless constant."""
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    share = config.decay_fraction if config.schedule == "wsd" else 1.0
    return min(1.0, (1.0 - progress) / share)
