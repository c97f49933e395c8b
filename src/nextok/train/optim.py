"""AdamW with its parameter groups, and its state as named arrays.

Matrices and embeddings decay; biases, norm weights and other vectors do not, since shrinking them only fights what
they are there for.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nextok.errors import CheckpointError
from nextok.train.config import TrainConfig

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Returns AdamW over the model's trained parameters in two groups: with decay, and without."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.lr, betas=betas, eps=config.adam_eps, fused=True
    )


def optimizer_arrays(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, NDArray[np.float32]]:
    """Returns the moments of every parameter as `NAME/exp_avg`, `NAME/exp_avg_sq`; empty before the first step."""
    arrays: dict[str, NDArray[np.float32]] = {}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        arrays |= {f"{name}/{moment}": state[moment].cpu().numpy() for moment in _MOMENTS if moment in state}
    return arrays


def load_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, arrays: Mapping[str, NDArray[np.float32]], updates: int
) -> None:
    """Gives every parameter its moments back.

    Args:
        model: Whose parameters the optimizer holds.
        optimizer: A fresh one.
        arrays: From `optimizer_arrays`.
        updates: How often the optimizer had stepped, for Adam's bias correction.

    Raises:
        CheckpointError: if a moment is missing.
    """
    if updates == 0:
        return
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        missing = [moment for moment in _MOMENTS if f"{name}/{moment}" not in arrays]
        if missing:
            raise CheckpointError(f"The checkpoint has no {missing[0]} of {name}.", "Resume from another checkpoint.")
        moments = {moment: torch.from_numpy(np.array(arrays[f"{name}/{moment}"])) for moment in _MOMENTS}
        device = parameter.device
        optimizer.state[parameter] = {
            "step": torch.tensor(float(updates), device=device),
            **{moment: value.to(device) for moment, value in moments.items()},
        }
