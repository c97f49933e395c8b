"""Normalisation: (x - mean) / sqrt(var + eps), or x / sqrt(mean(x^2) + eps).

The variance is the biased one and eps stands inside the root: [1, 0, 0, 0] gives 1.7320 first, and the unbiased
variance would give 1.5.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nextok.spec import ModelConfig


class RMSNorm(nn.RMSNorm):
    """torch's RMSNorm, with the weight in the dtype of the values: mixed, torch would leave its fused kernel."""

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Returns x / sqrt(mean(x^2) + eps) times the weight, over the last axis."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


def make_norm(config: ModelConfig, width: int) -> nn.Module:
    """Returns the norm a config asks for, over the last axis of this width."""
    if config.norm == "rmsnorm":
        return RMSNorm(width, config.norm_eps)
    return nn.LayerNorm(width, config.norm_eps, bias=config.bias)
