"""First weights.

`gpt2`: N(0, 0.02), residual projections divided by sqrt(2 L), biases 0, norms 1. `torch`: the defaults of torch's
modules in the order they are made, under `torch.manual_seed`, because lesson A does just that. `quiet`: token vectors
N(0, 1), matrices N(0, 1 / (3 columns)), and zeros in the residual projections and a head of its own, so that the first
logits are all equal whatever the width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nextok import rng
from nextok.model.gpt import GPT
from nextok.spec import ModelConfig

_GPT2_STD = 0.02
_RESIDUAL = ("attn.out.weight", "mlp.down.weight")


def build(config: ModelConfig, seed: int) -> GPT:
    """Returns a model with fresh float32 weights on the CPU, a function of the config and the seed."""
    if config.init == "torch":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return GPT(config)
    model = empty(config)
    for index, (name, parameter) in enumerate(model.named_parameters()):
        generator = torch.Generator().manual_seed(rng.key(seed, "init", index))
        std = _quiet_std(name, parameter, config) if config.init == "quiet" else _gpt2_std(name, config.n_layers)
        _fill(name, parameter, std, generator)
    return model


def empty(config: ModelConfig) -> GPT:
    """Returns a model whose weights are memory without meaning, to be filled; nothing is drawn."""
    with _NoDraws():
        return GPT(config)


class _NoDraws(TorchFunctionMode):
    """Leaves out the drawing of first weights. The meta device would too, but takes a second to load itself."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _gpt2_std(name: str, n_layers: int) -> float:
    return _GPT2_STD / math.sqrt(2 * n_layers) if name.endswith(_RESIDUAL) else _GPT2_STD


def _quiet_std(name: str, parameter: nn.Parameter, config: ModelConfig) -> float:
    if name.endswith((*_RESIDUAL, "head.weight")):
        return 0.0
    if name == "embed.tokens.weight" and not config.tied_head:  # a norm follows; as a head it must stay small
        return 1.0
    return _GPT2_STD if name.startswith("embed.") else 1 / math.sqrt(3 * parameter.shape[-1])


def _fill(name: str, parameter: nn.Parameter, std: float, generator: torch.Generator) -> None:
    """Draws matrices; biases are 0, norms 1."""
    with torch.no_grad():
        if parameter.ndim == 2:
            parameter.normal_(0.0, std, generator=generator)
        else:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
