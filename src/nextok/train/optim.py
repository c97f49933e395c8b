"""The optimizer of a run: AdamW, or Muon for the blocks' matrices and AdamW for the rest; its state as named arrays.

Matrices and embeddings decay; biases, norm weights and other vectors do not, since shrinking them only fights what
they are there for.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextok.checkpoint import Arrays
from nextok.model import GPT
from nextok.train.config import TrainConfig
from nextok.train.muon import Muon
from nextok.train.sharded import fill

_MOMENTS = ("exp_avg", "exp_avg_sq")
_MEAN = "momentum"


class Optimizer:
    """Changes a model's weights from their gradients; parameters that need no gradient are left alone.

    Args:
        model: Whose parameters are changed.
        config: Kind, rates and decay; a resolved precision (bf16: Muon's iterations run in it).
    """

    def __init__(self, model: GPT, config: TrainConfig) -> None:
        self._config = config
        self._names = {parameter: name for name, parameter in model.named_parameters() if parameter.requires_grad}
        matrices: dict[Tensor, list[int]] = {
            p: _parts(name, model) for p, name in self._names.items() if _is_matrix(name, p)
        }
        use_muon = config.optimizer == "muon" and bool(matrices)
        dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
        self.muon = (
            Muon(matrices, momentum=config.muon_momentum, weight_decay=config.weight_decay, dtype=dtype)
            if use_muon
            else None
        )
        self.adam = _adamw([p for p in self._names if not (use_muon and p in matrices)], config)

    def step(self, lr: float) -> None:
        """Changes the weights.

        Args:
            lr: Rate of AdamW; Muon's keeps its ratio to it.
        """
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        if self.muon is not None:
            self.muon.step(self._config.muon_lr * lr / self._config.lr)

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for parameter in self._names:
            parameter.grad = None

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Returns them as `NAME/exp_avg`, `NAME/exp_avg_sq`, `NAME/momentum`, of a model that is whole."""
        return {key: mean.cpu().numpy() for key, mean in self.means().items()}

    def load(self, arrays: Arrays, updates: int) -> None:
        """Takes over the running means.

        Args:
            arrays: From `arrays`, whole or in pieces.
            updates: How often the optimizer had stepped, for Adam's bias correction.

        Raises:
            CheckpointError: if one is missing.
        """
        if updates == 0:
            return
        for group in self.adam.param_groups:
            for parameter in group["params"]:
                self.adam.state[parameter] = {
                    "step": torch.tensor(float(updates), device=parameter.device),
                    **{moment: torch.zeros_like(parameter) for moment in _MOMENTS},
                }
        for key, mean in self.means().items():
            fill(mean, arrays, key)

    def means(self) -> dict[str, Tensor]:
        """Returns every running mean by its name: the optimizer's own, cut over processes where the model is.

        Before the first step there is none.
        """
        if not self.adam.state:
            return {}
        found: dict[str, Tensor] = {}
        for parameter, name in self._names.items():
            state = self.adam.state.get(parameter, {})
            found |= {f"{name}/{moment}": state[moment] for moment in _MOMENTS if moment in state}
            if self.muon is not None and parameter in self.muon.means:
                found[f"{name}/{_MEAN}"] = self.muon.means[parameter]
        return found


def _adamw(parameters: list[Tensor], config: TrainConfig) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.lr, betas=betas, eps=config.adam_eps, fused=True
    )


def _is_matrix(name: str, parameter: Tensor) -> bool:
    return name.startswith("blocks.") and name.endswith(".weight") and parameter.ndim == 2


def _parts(name: str, model: GPT) -> list[int]:
    """Returns the rows of the matrices that one parameter holds: queries, keys and values lie in one."""
    config = model.config
    if name.endswith("attn.qkv.weight"):
        heads = (config.n_heads, config.n_kv_heads, config.n_kv_heads)
        return [count * config.d_head for count in heads]
    return [int(model.get_parameter(name).shape[0])]
