"""Muon: momentum whose matrices are made orthogonal before they change the weights.

A gradient's few large singular directions drown the others; Newton-Schulz iterations bring all of them near 1. Matrices
of one shape are stacked and go through together, since a small matrix alone does not fill a processor; queries, keys
and values count as matrices of their own. Source: Jordan et al. 2024; `torch.optim.Muon` takes one matrix at a time and
is the oracle of the tests.

Axes: M matrices of one shape, R rows, C columns (R <= C).
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from nextok.train.sharded import held, held_rows, whole

_A, _B, _C = 3.4445, -4.7750, 2.0315  # a quintic that lifts small singular values fast and keeps all in 0.7 to 1.2
_EPS = 1e-7


def orthogonalise(x_MRC: Float[Tensor, "M R C"], steps: int = 5) -> Float[Tensor, "M R C"]:
    """Returns matrices with nearly the same singular vectors and singular values near 1.

    Args:
        x_MRC: At most as many rows as columns; the dtype is that of the arithmetic, and bfloat16 is enough.
        steps: Newton-Schulz iterations.
    """
    x_MRC = x_MRC / x_MRC.norm(dim=(1, 2), keepdim=True).clamp(min=_EPS)
    for _ in range(steps):
        gram_MRR = torch.bmm(x_MRC, x_MRC.mT)
        polynomial_MRR = torch.baddbmm(gram_MRR, gram_MRR, gram_MRR, beta=_B, alpha=_C)
        x_MRC = torch.baddbmm(x_MRC, polynomial_MRR, x_MRC, beta=_A)
    return x_MRC


class Muon:
    """Momentum of a set of matrices and their updates. Learning rates come with each step.

    Args:
        matrices: Each with the numbers of rows it consists of: one for a plain matrix, three for stacked q, k, v.
        momentum: Decay of the running mean of gradients.
        weight_decay: Share of the weights, times the learning rate, that a step takes away.
        dtype: Of the iterations.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, Sequence[int]],
        *,
        momentum: float,
        weight_decay: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.momentum, self.weight_decay, self.dtype = momentum, weight_decay, dtype
        self.means: dict[Tensor, Tensor] = {matrix: torch.zeros_like(matrix) for matrix in matrices}
        self._parts = {matrix: list(rows) for matrix, rows in matrices.items()}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Changes every matrix that has a gradient.

        Args:
            lr: Size of the change of a square matrix, as a multiple of an orthogonal one; a tall one gets
                sqrt(rows / columns) of it.
        """
        matrices = [matrix for matrix in self.means if matrix.grad is not None]
        if not matrices:
            return
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        means = [self.means[matrix] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - self.momentum)
        ahead = torch._foreach_lerp(gradients, means, self.momentum)  # Nesterov
        changes = [whole(step) for step in ahead]
        pieces = [
            part for matrix, step in zip(matrices, changes, strict=True) for part in step.split(self._parts[matrix])
        ]
        if self.weight_decay:
            torch._foreach_mul_(matrices, 1 - lr * self.weight_decay)
        for group in _same_shape(pieces):
            directions = orthogonalise(torch.stack([_wide(pieces[at]) for at in group]).to(self.dtype)).float()
            for at, direction in zip(group, directions, strict=True):
                rows, columns = pieces[at].shape
                turned = direction if rows <= columns else direction.mT
                torch.mul(turned, -lr * math.sqrt(max(1.0, rows / columns)), out=pieces[at])
        for matrix, change in zip(matrices, changes, strict=True):
            held(matrix).add_(held_rows(matrix, change))


def _wide(x: Tensor) -> Tensor:
    return x if x.shape[0] <= x.shape[1] else x.mT


def _same_shape(matrices: Iterable[Tensor]) -> list[list[int]]:
    """Returns the numbers of the matrices that have one shape, up to transposition, group by group."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for at, matrix in enumerate(matrices):
        groups.setdefault(tuple(sorted(matrix.shape)), []).append(at)
    return list(groups.values())
