import pytest

from nextok.spec import ModelConfig


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
