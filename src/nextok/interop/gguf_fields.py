"""The metadata of a GGUF file in the words of a `ModelConfig`, both ways: what a file means, and what to write.

Tensor names are in `gguf_names.py`, the tokenizer's keys in `gguf_tokenizer.py`.
"""

from collections.abc import Mapping
from typing import Any

from nextok.errors import CheckpointError, ConfigError
from nextok.interop.fields import family_of
from nextok.interop.gguf_file import GgufFile
from nextok.interop.gguf_names import EMBEDDING, HEAD
from nextok.interop.names import Family
from nextok.interop.typed_json import TypedJson
from nextok.spec import ModelConfig

_FAMILIES: tuple[Family, ...] = ("gpt2", "llama", "qwen3")

# What a file may ask for beyond the plain model, the values at which it does not, and what nextok does instead.
_PLAIN: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "expert_count": ((0,), "a block has one feed-forward network, no experts"),
    "attention.sliding_window": ((0,), "attention reaches the whole context"),
    "attention.causal": ((True,), "a position sees itself and the past"),
    "attention.scale": ((0.0,), "scores are divided by the root of the head width"),
    "attention.clamp_kqv": ((0.0,), "queries, keys and values are not clamped"),
    "attention.max_alibi_bias": ((0.0,), "scores have no bias by distance"),
    "attn_logit_softcapping": ((0.0,), "scores are not capped"),
    "final_logit_softcapping": ((0.0,), "logits are not capped"),
    "logit_scale": ((0.0, 1.0), "logits are not scaled"),
    "embedding_scale": ((0.0, 1.0), "embeddings are not scaled"),
    "residual_scale": ((0.0, 1.0), "sums of the residual stream are not scaled"),
    "rope.scale_linear": ((0.0, 1.0), "angles are never scaled"),
    "rope.scaling.type": (("none", ""), "angles are never scaled"),
}


def read_gguf_fields(file: GgufFile) -> tuple[Family, ModelConfig]:
    """Returns the family that a GGUF file is of, and the model it describes.

    Raises:
        CheckpointError: for an architecture that is not known, a key that is missing or of the wrong type, or one that
            asks for a computation nextok does not have; by name, with the reason.
    """
    fields = TypedJson(file.metadata, file.path)
    fields.require(
        "split.count", (0, 1), "a model is one file: join the parts with llama-gguf-split --merge", default=0
    )
    family = _family(fields)
    model = _Model(fields, family)
    for key, (allowed, reason) in _PLAIN.items():
        model.require(key, allowed, reason)
    for name in ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"):
        if name in file.tensors:
            raise CheckpointError(
                f"{file.path} scales the angles of its rotary positions, by the tensor {name}; in nextok they are "
                "never scaled.",
                "This model cannot be run exactly.",
            )
    if EMBEDDING not in file.tensors:
        raise CheckpointError(f"{file.path} has no tensor {EMBEDDING}.", "It holds no whole model.")
    parts = _gpt2_parts(model) if family == "gpt2" else _llama_parts(model, file)
    shared: dict[str, Any] = {
        "vocab_size": file.tensors[EMBEDDING].shape[0],
        "context": model.whole("context_length"),
        "d_model": model.whole("embedding_length"),
        "d_ff": model.whole("feed_forward_length"),
        "n_layers": model.whole("block_count"),
        "n_heads": model.whole("attention.head_count"),
        "tied_head": _is_tied(file),
    }
    try:
        return family, ModelConfig(**shared, **parts)
    except ConfigError as error:
        raise CheckpointError(
            f"{file.path} describes no model that can be built. {error.message}", error.hint
        ) from error


def gguf_family(config: ModelConfig) -> Family:
    """Returns the architecture under which llama.cpp computes exactly this model.

    Raises:
        ConfigError: if there is none, with the reason.
    """
    family, reason = family_of(config)
    if family == "gpt2" and config.mlp != "gelu_tanh":
        reason = f"In files of gpt2 the activation is always the tanh GELU, and this model has mlp = {config.mlp!r}."
    if family == "nextok" or reason:
        raise ConfigError(
            f"The model cannot be written as GGUF. {reason}", "Write a directory of transformers instead."
        )
    return family


def written_gguf_fields(config: ModelConfig, family: Family) -> dict[str, int | float]:
    """Returns the keys that describe the model; whole numbers are uint32 in the file, others float32."""
    norm = "attention.layer_norm_epsilon" if family == "gpt2" else "attention.layer_norm_rms_epsilon"
    fields: dict[str, int | float] = {
        "vocab_size": config.vocab_size,
        "context_length": config.context,
        "embedding_length": config.d_model,
        "block_count": config.n_layers,
        "feed_forward_length": config.d_ff,
        "attention.head_count": config.n_heads,
        "attention.head_count_kv": config.n_kv_heads,
        norm: float(config.norm_eps),
    }
    if family != "gpt2":
        fields |= {
            "attention.key_length": config.d_head,
            "attention.value_length": config.d_head,
            "rope.dimension_count": config.d_head,
            "rope.freq_base": float(config.rope_base),
        }
    return {f"{family}.{name}": value for name, value in fields.items()}


class _Model:
    """The keys of one architecture, which stand after its name; the values are checked as `TypedJson` does."""

    def __init__(self, fields: TypedJson, family: Family) -> None:
        self._fields, self.family = fields, family

    def whole(self, key: str, default: int | None = None) -> int:
        name = f"{self.family}.{key}"
        return self._fields.whole(name) if default is None else self._fields.whole(name, default)

    def number(self, key: str, default: float | None = None) -> float:
        name = f"{self.family}.{key}"
        return self._fields.number(name) if default is None else self._fields.number(name, default)

    def require(self, key: str, allowed: tuple[Any, ...], reason: str) -> None:
        self._fields.require(f"{self.family}.{key}", allowed, reason, default=allowed[0])


def _family(fields: TypedJson) -> Family:
    name = fields.text("general.architecture")
    if name not in _FAMILIES:
        raise CheckpointError(
            f"{fields.path} holds a model of the architecture {name!r}, which nextok does not know.",
            f"Known: {', '.join(_FAMILIES)}.",
        )
    return name


def _gpt2_parts(model: _Model) -> dict[str, Any]:
    heads = model.whole("attention.head_count")
    model.require("attention.head_count_kv", (heads,), "gpt2 has one head of keys and values for each of queries")
    return {
        "norm": "layernorm",
        "norm_eps": model.number("attention.layer_norm_epsilon"),
        "position": "learned",
        "mlp": "gelu_tanh",
        "bias": True,
    }


def _llama_parts(model: _Model, file: GgufFile) -> dict[str, Any]:
    heads = model.whole("attention.head_count")
    width = model.whole("attention.key_length", model.whole("embedding_length") // max(1, heads))
    model.require("attention.value_length", (width,), "values are as wide as keys")
    model.require("rope.dimension_count", (width,), "whole heads are rotated")
    return {
        "norm": "rmsnorm",
        "norm_eps": model.number("attention.layer_norm_rms_epsilon"),
        "position": "rope",
        "rope_base": model.number("rope.freq_base", 10_000.0),
        "mlp": "swiglu",
        "qk_norm": model.family == "qwen3",
        "bias": "blk.0.attn_q.bias" in file.tensors,
        "n_kv_heads": model.whole("attention.head_count_kv", heads),
        "d_head": width,
    }


def _is_tied(file: GgufFile) -> bool:
    """Whether the head is the embedding: not stored, or stored once more with the same bytes."""
    head, embedding = file.tensors.get(HEAD), file.tensors[EMBEDDING]
    if head is None:
        return True
    if (head.shape, head.encoding) != (embedding.shape, embedding.encoding):
        return False
    return file.same_bytes(HEAD, EMBEDDING)
