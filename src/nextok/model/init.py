"""First weights.

`gpt2`: N(0, 0.02), residual projections divided by sqrt(2 L), biases 0, norms 1. `torch`: the defaults of torch's
modules in the order they are made, under `torch.manual_seed`, because lesson A does just that.
"""

import math

import torch
from torch import nn

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
        _fill_gpt2(name, parameter, config.n_layers, generator)
    return model


def empty(config: ModelConfig) -> GPT:
    """Returns a model whose weights are memory without meaning, to be filled; nothing is drawn."""
    with torch.device("meta"):
        model = GPT(config)
    return model.to_empty(device="cpu")


def _fill_gpt2(name: str, parameter: nn.Parameter, n_layers: int, generator: torch.Generator) -> None:
    with torch.no_grad():
        if parameter.ndim == 2:
            residual = name.endswith(_RESIDUAL)
            parameter.normal_(0.0, _GPT2_STD / math.sqrt(2 * n_layers) if residual else _GPT2_STD, generator=generator)
        else:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
