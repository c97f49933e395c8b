"""AdamW with its parameter groups, and its state as named arrays.

Matrices and embeddings decay; biases, norm weights and other vectors do not, since shrinking them only fights what
they are there for.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nextok.checkpoint import Arrays
from nextok.train.config import TrainConfig
from nextok.train.sharded import fill

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Returns AdamW over the model's parameters in two groups: with decay, and without."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.lr, betas=betas, eps=config.adam_eps, fused=True
    )


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns the moments of every parameter as `NAME/exp_avg`, `NAME/exp_avg_sq`; empty before the first step.

    They are the optimizer's own; where the model is cut over processes, so are they.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        tensors |= {f"{name}/{moment}": state[moment] for moment in _MOMENTS if moment in state}
    return tensors


def optimizer_arrays(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, NDArray[np.float32]]:
    """Returns the same as arrays; the model must not be cut."""
    return {name: tensor.cpu().numpy() for name, tensor in optimizer_tensors(model, optimizer).items()}


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, arrays: Arrays, updates: int) -> None:
    """Gives every parameter its moments back, or the rows of them that this process holds.

    Args:
        model: Whose parameters the optimizer holds.
        optimizer: A fresh one.
        arrays: From `optimizer_arrays`, whole or in pieces.
        updates: How often the optimizer had stepped, for Adam's bias correction.

    Raises:
        CheckpointError: if a moment is missing.
    """
    if updates == 0:
        return
    for name, parameter in model.named_parameters():
        moments = {moment: torch.empty_like(parameter, requires_grad=False) for moment in _MOMENTS}
        for moment, tensor in moments.items():
            fill(tensor, arrays, f"{name}/{moment}")
        optimizer.state[parameter] = {"step": torch.tensor(float(updates), device=parameter.device), **moments}
