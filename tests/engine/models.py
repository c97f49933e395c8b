"""Models at the sizes where a tile, a half, a group or a block of positions ends, and the weights they get."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nextok.engine import PackedModel, Precision, pack_model
from nextok.spec import ModelConfig, parameter_shapes

_LLAMA: dict[str, object] = {"norm": "rmsnorm", "norm_eps": 1e-6, "position": "rope", "mlp": "swiglu", "bias": False}

SIZES: dict[str, dict[str, object]] = {
    "whole tiles": {"d_model": 64, "n_heads": 2, "vocab_size": 96, "context": 64},
    "one more than a tile": {"d_model": 33, "n_heads": 3, "d_ff": 65, "vocab_size": 33, "context": 33},
    "one less than a tile": {"d_model": 31, "n_heads": 1, "d_ff": 95, "vocab_size": 95, "context": 31},
    "heads of 8": {"d_model": 40, "n_heads": 5, "vocab_size": 257, "context": 40},
    "heads of 48, shared by three": {**_LLAMA, "d_model": 144, "n_heads": 3, "n_kv_heads": 1, "vocab_size": 50,
                                     "context": 40},
    "qwen3": {**_LLAMA, "d_model": 64, "n_heads": 4, "d_head": 32, "n_kv_heads": 2, "qk_norm": True, "tied_head": False,
              "vocab_size": 65, "context": 70},
    "twelve queries a key": {"d_model": 48, "n_heads": 12, "n_kv_heads": 1, "d_head": 16, "vocab_size": 64,
                             "context": 35},
    "a single layer": {"n_layers": 1, "d_model": 32, "n_heads": 4, "mlp": "gelu", "vocab_size": 65, "context": 32},
    "width 1": {"n_layers": 1, "d_model": 2, "n_heads": 1, "d_ff": 1, "vocab_size": 2, "context": 3},
    "context of 1": {"d_model": 16, "n_heads": 2, "vocab_size": 11, "context": 1},
    "after the sum": {"norm_placement": "after", "d_model": 40, "n_heads": 5, "mlp": "relu", "vocab_size": 70,
                      "context": 40},
    "capped": {"mlp": "relu2", "logit_softcap": 1.5, "d_model": 32, "n_heads": 2, "vocab_size": 70, "context": 40},
}  # fmt: skip


def config_of(name: str) -> ModelConfig:
    return ModelConfig(**{"n_layers": 2, **SIZES[name]})


def some_weights(config: ModelConfig, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Returns weights that all matter: no zero biases, no gains of 1, and large position vectors."""
    random, weights = np.random.default_rng(seed), {}
    for name, shape in parameter_shapes(config).items():
        centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        spread = 1.0 if name.startswith("embed") else 0.3 if len(shape) == 1 else shape[1] ** -0.5
        weights[name] = random.normal(centre, spread, shape).astype(np.float32)
    return weights


def packed(config: ModelConfig, precision: Precision, weights: Mapping[str, NDArray] | None = None) -> PackedModel:
    return pack_model(config, (weights or some_weights(config)).items(), precision)


def some_ids(config: ModelConfig, length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, config.vocab_size, length).tolist()
