"""Exact counts of a model's parameters, floating-point operations and memory, by structure.

A multiply-add is two operations. The exact count takes every matrix product of the forward pass, attention over the
whole context included (products above the diagonal are computed and thrown away); the backward pass costs twice the
forward. `6 N` is the rule of thumb of the scaling-law papers; both are shown because they differ by up to a fifth.
"""

import math
from dataclasses import dataclass

from nextok.spec.config import ModelConfig
from nextok.spec.shapes import parameter_shapes

FLOAT_BYTES = 4
ADAMW_BYTES_PER_PARAMETER = 2 * FLOAT_BYTES  # first and second moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What a model costs. All per model unless the name says otherwise."""

    parameters: int
    """All trained numbers; a tied head counts once."""
    parameters_by_part: dict[str, int]
    """token embedding, position embedding, attention, feed-forward, norms, head."""
    non_embedding_parameters: int
    """Without the token and position tables; the head counts only where it is a matrix of its own."""
    matmul_parameters: int
    """Weights that multiply activations in each forward pass, the head included whether tied or not."""
    forward_flops_per_token: int
    """Exact, at full context."""
    training_flops_per_token: int
    """Exact: forward and backward, three times the forward pass."""
    training_flops_per_token_6n: int
    """Rule of thumb: 6 times all parameters."""
    weight_bytes: int
    """float32 weights."""
    training_state_bytes: int
    """float32 weights, gradients and AdamW's two moments."""
    activation_bytes_per_token: int
    """Kept for the backward pass of one token of a batch, logits included; an estimate by structure."""
    kv_cache_bytes_per_token: int
    """float32 keys and values of one position."""

    def training_memory_bytes(self, batch_tokens: int) -> int:
        """Returns the memory of a training step over this many tokens, without the runtime itself."""
        return self.training_state_bytes + batch_tokens * self.activation_bytes_per_token


def count(config: ModelConfig) -> Counts:
    """Returns the exact counts of a model."""
    shapes = parameter_shapes(config)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    parameters = sum(sizes.values())
    parts = _by_part(sizes)
    embeddings = sum(size for name, size in sizes.items() if name.startswith("embed."))
    matmul = sum(size for name, size in sizes.items() if len(shapes[name]) == 2 and not name.startswith("embed."))
    matmul += config.vocab_size * config.d_model if config.tied_head else 0
    attended = 2 * config.n_layers * config.n_heads * config.d_head * config.context  # scores, then mixing
    forward = 2 * matmul + 2 * attended
    return Counts(
        parameters=parameters,
        parameters_by_part=parts,
        non_embedding_parameters=parameters - embeddings,
        matmul_parameters=matmul,
        forward_flops_per_token=forward,
        training_flops_per_token=3 * forward,
        training_flops_per_token_6n=6 * parameters,
        weight_bytes=FLOAT_BYTES * parameters,
        training_state_bytes=(2 * FLOAT_BYTES + ADAMW_BYTES_PER_PARAMETER) * parameters,
        activation_bytes_per_token=FLOAT_BYTES * _kept_activations(config),
        kv_cache_bytes_per_token=FLOAT_BYTES * 2 * config.n_layers * config.n_kv_heads * config.d_head,
    )


def _by_part(sizes: dict[str, int]) -> dict[str, int]:
    parts = dict.fromkeys(("token embedding", "position embedding", "attention", "feed-forward", "norms", "head"), 0)
    for name, size in sizes.items():
        parts[_part(name)] = parts.get(_part(name), 0) + size
    return parts


def _part(name: str) -> str:
    if name.startswith("embed."):
        return {"tokens": "token", "positions": "position", "bigrams": "bigram"}[name.split(".")[1]] + " embedding"
    if ".attn." in name:
        return "attention"
    if ".mlp." in name:
        return "feed-forward"
    return "head" if name.startswith("head.") else "norms"


def _kept_activations(config: ModelConfig) -> int:
    """Floats a token leaves for the backward pass: what each operation must remember of its inputs."""
    D, V = config.d_model, config.vocab_size
    norm = 2 * D if config.norm == "layernorm" else 3 * D  # input and output; RMSNorm also the value before its gain
    dropped = 2 * D if config.dropout else 0
    head = norm + 2 * V + (V if config.logit_softcap else 0)  # logits and their log-softmax; the tanh
    return config.n_layers * (2 * norm + _kept_attention(config) + _kept_feed_forward(config) + dropped) + head


def _kept_attention(config: ModelConfig) -> int:
    heads, kv_heads = config.n_heads * config.d_head, config.n_kv_heads * config.d_head
    turned = (config.position == "rope") or config.qk_norm
    copies = (turned + config.qk_norm) * (heads + kv_heads)
    shared = 2 * heads if config.n_kv_heads < config.n_heads else 0  # keys and values, one for each query head
    weights = 3 * config.n_heads * config.context if config.dropout else 0  # dropping them makes torch keep them
    return config.qkv_width + copies + shared + weights + heads


def _kept_feed_forward(config: ModelConfig) -> int:
    kept = {"gelu": 2, "gelu_tanh": 2, "relu": 1, "relu2": 2, "swiglu": 4}  # ReLU remembers its output alone
    return kept[config.mlp] * config.d_ff
