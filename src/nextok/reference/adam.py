"""Adam, one line an equation. Source: Kingma and Ba 2015, algorithm 1; the defaults are torch's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nextok.reference.ops import Array


@dataclass(kw_only=True, slots=True)
class Adam:
    """Adam without weight decay, over weights by name."""

    lr: float = 1e-3
    """Step size; above 0."""
    beta1: float = 0.9
    """Decay of the mean gradient."""
    beta2: float = 0.999
    """Decay of the mean squared gradient."""
    eps: float = 1e-8
    """Added to the root."""
    steps: int = 0
    """Steps done."""
    mean: dict[str, Array] = field(default_factory=dict)
    """Running mean of the gradients, m."""
    square: dict[str, Array] = field(default_factory=dict)
    """Running mean of their squares, v."""

    def step(self, weights: Mapping[str, Array], grads: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the weights after one step down the gradients; the ones given stay as they are."""
        self.steps += 1
        moved = {}
        for name, weight in weights.items():
            grad = grads[name]
            self.mean[name] = self.beta1 * self.mean.get(name, 0.0) + (1 - self.beta1) * grad
            self.square[name] = self.beta2 * self.square.get(name, 0.0) + (1 - self.beta2) * grad**2
            mean = self.mean[name] / (1 - self.beta1**self.steps)  # both start at 0; this takes the pull to 0 out
            square = self.square[name] / (1 - self.beta2**self.steps)
            moved[name] = weight - self.lr * mean / (np.sqrt(square) + self.eps)
        return moved
