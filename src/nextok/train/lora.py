"""LoRA: the weights of a model stay as they are, and beside each linear map two thin matrices learn (Hu et al. 2021).

    y = W x + (alpha / rank) B A x

A [rank, in] is drawn, B [out, rank] begins at zero, so before the first step the model computes what it did before.
Merging adds the product to W: the result is a plain model, which costs nothing more to run. Biases, norms, embeddings
and the head are never adapted.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from nextok import rng
from nextok.errors import ConfigError
from nextok.interop import write_adapter
from nextok.model import GPT, weight_arrays
from nextok.spec import count

LoraTargets = Literal["all", "attention", "mlp"]

_MAPS: dict[LoraTargets, tuple[str, ...]] = {
    "all": ("attn.qkv", "attn.out", "mlp.up", "mlp.down"),
    "attention": ("attn.qkv", "attn.out"),
    "mlp": ("mlp.up", "mlp.down"),
}
_OWN = ("lora_a", "lora_b")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoraConfig:
    """Which adapters a model gets."""

    rank: int
    """Rows of A and columns of B; at least 1, at most the width of the narrowest map."""
    alpha: float
    """The product is scaled by alpha / rank; above 0."""
    targets: LoraTargets = "all"
    """The linear maps of attention, of the feed-forward network, or of both."""


class LoraLinear(nn.Linear):
    """A linear map with an adapter; its own weights are those of the map it takes the place of, and frozen."""

    def __init__(self, base: nn.Linear, config: LoraConfig) -> None:
        nn.Module.__init__(self)  # nn.Linear's own would draw weights
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight = base.weight
        self.register_parameter("bias", base.bias)
        self.scale = config.alpha / config.rank
        self.lora_a = nn.Parameter(base.weight.new_empty(config.rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, config.rank))

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        """Returns what the map and its adapter make of x."""
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)

    def merged(self) -> Float[Tensor, "O I"]:
        """Returns the one matrix that does the work of all three."""
        return self.weight + self.scale * (self.lora_b @ self.lora_a)


def add_lora(model: GPT, config: LoraConfig, seed: int) -> None:
    """Freezes every weight of the model and gives the chosen maps adapters, drawn from the seed.

    A is N(0, 1 / in), so that A x is as large as x.

    Raises:
        ConfigError: if the rank is larger than a map, where nothing is low about it.
    """
    model.requires_grad_(requires_grad=False)
    for index, name in enumerate(_target_names(model, config.targets)):
        parent, _, leaf = name.rpartition(".")
        base = model.get_submodule(name)
        assert isinstance(base, nn.Linear), f"{name} is no linear map"
        narrowest = min(base.in_features, base.out_features)
        if config.rank > narrowest:
            raise ConfigError(f"lora = {config.rank} is above {narrowest}, the width of {name}.", "8 or 16 is usual.")
        adapted = LoraLinear(base, config)
        generator = torch.Generator().manual_seed(rng.key(seed, "init", index, 1))
        drawn_RI = torch.empty(adapted.lora_a.shape).normal_(0.0, 1 / math.sqrt(base.in_features), generator=generator)
        adapted.lora_a.data.copy_(drawn_RI)
        setattr(model.get_submodule(parent), leaf, adapted)


def merged_arrays(model: GPT) -> dict[str, NDArray[np.float32]]:
    """Returns the weights of a plain model that computes the same, by native name; the model is not changed."""
    arrays: dict[str, Any] = {name: array for name, array in weight_arrays(model).items() if not name.endswith(_OWN)}
    with torch.no_grad():
        merged = {f"{name}.weight": module.merged() for name, module in _adapted(model).items()}
    return arrays | {name: weight.to("cpu", torch.float32).numpy() for name, weight in merged.items()}


def training_flops_per_token(model: GPT) -> int:
    """Returns the operations of a step for a token: a frozen weight costs no gradient of its own, an adapter all three.

    Exact but for the lowest map, which needs no gradient of its input.
    """
    counts = count(model.config)
    if not _adapted(model):
        return counts.training_flops_per_token
    return counts.training_flops_per_token - 2 * counts.matmul_parameters + 6 * trained_parameters(model)


def write_adapters(folder: Path, model: GPT) -> None:
    """Writes the adapters of the model, if it has any, into the run directory, for those who keep the base apart.

    Raises:
        DiskError: if they cannot be written.
    """
    adapted = _adapted(model)
    if not adapted:
        return
    arrays = weight_arrays(model, trained=True)
    first = next(iter(adapted.values()))
    rank = len(first.lora_a)
    write_adapter(
        folder,
        model.config,
        {name: (arrays[f"{name}.lora_a"], arrays[f"{name}.lora_b"]) for name in adapted},
        rank=rank,
        alpha=first.scale * rank,
    )


def trained_parameters(model: GPT) -> int:
    """Returns how many numbers of the model training changes."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _target_names(model: GPT, targets: LoraTargets) -> list[str]:
    return [f"blocks.{layer}.{name}" for layer in range(model.config.n_layers) for name in _MAPS[targets]]


def _adapted(model: GPT) -> dict[str, LoraLinear]:
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}
