"""Rotary positions: each pair of a head's coordinates turns by an angle that grows with the position.

Pairs are coordinate i and i + K/2, as in Llama and Qwen3 files from transformers; llama.cpp's neighbours (2i, 2i + 1)
are the same rotation of permuted rows. Source: RoFormer (Su et al. 2021).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rotation:
    """The angles of a set of positions, ready for any layer: `[T, K/2]`, or `[B, 1, T, K/2]` for ragged rows."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x_BHTK: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Returns the heads turned by the angles of their positions."""
        first, second = x_BHTK.chunk(2, dim=-1)
        cos, sin = self.cos.to(x_BHTK.dtype), self.sin.to(x_BHTK.dtype)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotation(positions: Int[Tensor, "*rows T"], d_head: int, base: float) -> Rotation:
    """Returns the rotation of positions `[T]` or `[B, T]`. Angles are float32 whatever the model computes in."""
    powers = torch.arange(0, d_head, 2, device=positions.device, dtype=torch.float32) / d_head
    angles = positions.float()[..., None] * base**-powers
    if positions.ndim == 2:
        angles = angles[:, None]
    return Rotation(angles.cos(), angles.sin())
