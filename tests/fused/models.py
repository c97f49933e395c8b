"""Models of every kind that has a fused form, with weights far from their start, and batches for them."""

import torch
from torch import Tensor

from nextok.model import GPT, IGNORED, build
from nextok.spec import ModelConfig

TINY = {"n_layers": 2, "d_model": 24, "n_heads": 4, "context": 12, "vocab_size": 19}
KINDS: dict[str, dict[str, object]] = {
    "gpt2": {},
    "lesson": {"mlp": "gelu", "tied_head": False},
    "no biases": {"bias": False, "mlp": "relu"},
    "qwen3": {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "qk_norm": True, "bias": False, "n_kv_heads": 2},
    "speedrun": {
        "norm": "rmsnorm",
        "position": "rope",
        "mlp": "relu2",
        "bias": False,
        "logit_softcap": 3.0,
        "bigrams": 1000,
    },
    "shared pairs": {"bigrams": 50},
    "wide heads": {"d_head": 10, "position": "rope", "n_kv_heads": 1, "qk_norm": True},
}


def model_of(kind: str, **changes: object) -> GPT:
    model = build(ModelConfig(**{**TINY, **KINDS[kind], **changes}), 1)  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.2)
    return model.train()


def batch_of(B: int = 3, T: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns ids and targets, one of which does not count."""
    window_BT = torch.randint(0, 19, (B, T + 1), generator=torch.Generator().manual_seed(seed))
    targets_BT = window_BT[:, 1:].clone()
    targets_BT[0, 1] = IGNORED
    return window_BT[:, :-1], targets_BT


def gradients(model: GPT) -> dict[str, Tensor]:
    """Returns and forgets them."""
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found
