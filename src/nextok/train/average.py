"""The running mean of a model's weights, which often does better than the weights it follows.

Early steps count less, so that the mean does not remember the first, random weights. Source: Polyak and Juditsky 1992.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextok.checkpoint import Arrays
from nextok.model import GPT
from nextok.train.sharded import fill


class Average:
    """Follows the weights of a model.

    Args:
        model: Whose weights are followed.
        decay: Share of the mean that a step keeps, once it has seen enough steps.
    """

    def __init__(self, model: GPT, decay: float) -> None:
        self._model, self._decay = model, decay
        self._means = {name: weight.detach().clone() for name, weight in _trained(model)}

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Takes in the weights after a step.

        Args:
            updates: Steps so far, this one included.
        """
        decay = min(self._decay, updates / (updates + 10))
        torch._foreach_lerp_(list(self._means.values()), self._weights(), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block, the model has the mean as its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def means(self) -> dict[str, Tensor]:
        """Returns the mean by parameter name, cut over processes where the model is."""
        return self._means

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Returns the mean by parameter name, float32."""
        return {name: mean.cpu().numpy() for name, mean in self._means.items()}

    def load(self, arrays: Arrays) -> None:
        """Takes over a mean.

        Raises:
            CheckpointError: if a parameter is missing.
        """
        for name, mean in self._means.items():
            fill(mean, arrays, name)

    @torch.no_grad()
    def _swap(self) -> None:
        for weight, mean in zip(self._weights(), self._means.values(), strict=True):
            kept = weight.clone()
            weight.copy_(mean)
            mean.copy_(kept)

    def _weights(self) -> list[Tensor]:
        return [weight.detach() for _, weight in _trained(self._model)]


def _trained(model: GPT) -> Iterator[tuple[str, Tensor]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)
