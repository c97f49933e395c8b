"""Normalisation: (x - mean) / sqrt(var + eps), or x / sqrt(mean(x^2) + eps).

The variance is the biased one and eps stands inside the root: [1, 0, 0, 0] gives 1.7320 first, and the unbiased
variance would give 1.5.
"""

from torch import nn

from nextok.spec import ModelConfig


def make_norm(config: ModelConfig, width: int) -> nn.Module:
    """Returns the norm a config asks for, over the last axis of this width."""
    if config.norm == "rmsnorm":
        return nn.RMSNorm(width, config.norm_eps)
    return nn.LayerNorm(width, config.norm_eps, bias=config.bias)
