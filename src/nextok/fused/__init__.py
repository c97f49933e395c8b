"""The loss and its gradients in few passes over memory, for training on a CPU; equal to `nextok.model`, faster.

Kernels are compiled by Numba once for a machine. Steps, optimizers and schedules belong to `nextok.train`.
"""

from nextok.fused.forward import fits, fused_loss
from nextok.fused.ops import Dropout
from nextok.fused.ready import make_ready

__all__ = ["Dropout", "fits", "fused_loss", "make_ready"]
