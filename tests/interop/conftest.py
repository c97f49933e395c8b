from collections.abc import Callable

import numpy as np
import pytest

from nextok.spec import ModelConfig, parameter_shapes

Weights = dict[str, np.ndarray]


@pytest.fixture(scope="session")
def random_weights() -> Callable[[ModelConfig], Weights]:
    """Returns what draws a different number for every weight of a model, so that nothing can trade places."""

    def draw(config: ModelConfig, seed: int = 0) -> Weights:
        generator = np.random.default_rng(seed)
        return {
            name: generator.standard_normal(shape, dtype=np.float32) for name, shape in parameter_shapes(config).items()
        }

    return draw


@pytest.fixture(scope="session")
def tiny() -> dict[str, ModelConfig]:
    """Returns one small model of each family, by the family's name."""
    size = {"n_layers": 2, "d_model": 12, "n_heads": 3, "context": 10, "vocab_size": 17}
    llama = {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "n_kv_heads": 1, "d_head": 6, "bias": False}
    return {
        "gpt2": ModelConfig(**size),
        "llama": ModelConfig(**size, **llama),
        "qwen3": ModelConfig(**size, **llama, qk_norm=True, tied_head=False),
        "nextok": ModelConfig(**size, norm_placement="after", logit_softcap=30.0, tied_head=False),
    }
