"""The options of a decoder-only transformer: every part is chosen here, and numbers that do not fit are refused.

`Architecture` is everything but the vocabulary, which only a tokenizer knows; `ModelConfig` adds it and settles every
width that was left to follow from the others.
"""

import math
import typing
from dataclasses import dataclass, fields
from typing import Literal

from nextok import config as options
from nextok.errors import ModelConfigError

NormKind = Literal["layernorm", "rmsnorm"]
MlpKind = Literal["gelu", "gelu_tanh", "relu", "relu2", "swiglu"]

# SwiGLU has three matrices where the others have two: 8/3 D keeps the count of 4 D. Rounded up to whole groups of 32,
# the block in which 4- and 8-bit formats quantise rows.
_SWIGLU_GROUP = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """The shape and the parts of a model, without its vocabulary. Letters in brackets are those of `nextok.spec`."""

    n_layers: int = 4
    """Blocks, one after another [L]; at least 1."""
    d_model: int = 128
    """Width of the residual stream [D]; a multiple of n_heads unless d_head is given."""
    n_heads: int = 4
    """Attention heads [H]; at least 1."""
    n_kv_heads: int = 0
    """Heads of keys and values [G], shared by n_heads / n_kv_heads query heads each; 0: as many as n_heads."""
    d_head: int = 0
    """Width of one head [K]; 0: d_model / n_heads. Even where positions are rotary."""
    d_ff: int = 0
    """Width of the feed-forward layer [F]; 0: 4 d_model, or 8/3 d_model in whole groups of 32 for swiglu."""
    context: int = 64
    """Most tokens a forward pass sees; at least 1."""
    norm: NormKind = "layernorm"
    """Normalisation; the biased variance and eps inside the root in both."""
    norm_eps: float = 1e-5
    """Added to the variance inside the root; above 0. Source: GPT-2 (1e-5), Qwen3 (1e-6)."""
    norm_placement: Literal["before", "after"] = "before"
    """Before the sublayer, with a final norm (GPT-2), or after the residual sum, without one (GPT-1)."""
    position: Literal["learned", "rope"] = "learned"
    """A trained table added to the embedding, or rotation of queries and keys (RoFormer)."""
    bigrams: int = 0
    """Rows of a table with a vector for each pair of neighbouring tokens, added to the second; 0: none. With fewer than
    vocab_size^2, pairs share rows. Cheap to compute, and much of what a small model of characters has to learn."""
    rope_base: float = 10_000.0
    """Base of the rotary frequencies; above 1. Source: RoFormer."""
    mlp: MlpKind = "gelu_tanh"
    """Feed-forward activation: erf GELU, tanh GELU (GPT-2), ReLU, squared ReLU, or gated SiLU (SwiGLU)."""
    qk_norm: bool = False
    """RMSNorm over each head's queries and keys, before the rotation (Qwen3)."""
    bias: bool = True
    """Biases in linear maps and LayerNorms; the head never has one."""
    tied_head: bool = True
    """The head reads the token embedding instead of a matrix of its own."""
    logit_softcap: float = 0.0
    """Logits become c tanh(logits / c); 0: off."""
    dropout: float = 0.0
    """Probability of dropping embeddings, attention weights and sublayer outputs in training; in [0, 1)."""
    mask: Literal["causal", "none"] = "causal"
    """Causal: a position sees itself and the past. None shows what the mask is for; such a model cannot generate."""
    init: Literal["gpt2", "torch", "quiet"] = "gpt2"
    """N(0, 0.02) with residual projections scaled by 1/sqrt(2 L); the defaults of torch's modules (lesson A); or quiet:
    blocks and head that add nothing at first, for large learning rates (modded-nanogpt)."""

    def __post_init__(self) -> None:
        _require_choices(self)
        for name in ("n_layers", "d_model", "n_heads", "context"):
            _require(getattr(self, name) >= 1, f"{name} = {getattr(self, name)} is below 1.")
        for name in ("n_kv_heads", "d_head", "d_ff", "bigrams"):
            _require(getattr(self, name) >= 0, f"{name} = {getattr(self, name)} is negative.")
        _require(
            self.d_head > 0 or self.d_model % self.n_heads == 0,
            f"d_model = {self.d_model} is not divisible by n_heads = {self.n_heads}.",
            _divisible_hint(self.d_model, self.n_heads),
        )
        kv_heads = self.n_kv_heads or self.n_heads
        _require(self.n_heads % kv_heads == 0, f"n_heads = {self.n_heads} is not divisible by n_kv_heads = {kv_heads}.")
        head_width = self.d_head or self.d_model // self.n_heads
        _require(
            self.position != "rope" or head_width % 2 == 0,
            f"rotary positions need an even head width; d_model = {self.d_model} with {self.n_heads} heads gives "
            f"{head_width}.",
            "Change d_model, n_heads or d_head, or use learned positions.",
        )
        _require(self.norm_eps > 0 and math.isfinite(self.norm_eps), f"norm_eps = {self.norm_eps} is not above 0.")
        _require(self.rope_base > 1 and math.isfinite(self.rope_base), f"rope_base = {self.rope_base} is not above 1.")
        _require(0 <= self.dropout < 1, f"dropout = {self.dropout} is not in [0, 1).")
        _require(
            self.logit_softcap >= 0 and math.isfinite(self.logit_softcap),
            f"logit_softcap = {self.logit_softcap} is negative.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Architecture):
    """A whole model: an architecture and its vocabulary, with every width settled (no zeros left)."""

    vocab_size: int
    """Rows of the token embedding and of the logits [V]; at least 1."""

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)  # zero-argument super() does not work in slotted dataclasses
        _require(self.vocab_size >= 1, f"vocab_size = {self.vocab_size} is below 1.")
        settled = {
            "n_kv_heads": self.n_kv_heads or self.n_heads,
            "d_head": self.d_head or self.d_model // self.n_heads,
            "d_ff": self.d_ff or default_d_ff(self.d_model, self.mlp),
            "bigrams": min(self.bigrams, self.vocab_size**2),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, architecture: Architecture, vocab_size: int) -> "ModelConfig":
        """Returns the architecture with this vocabulary."""
        return cls(
            **{field.name: getattr(architecture, field.name) for field in fields(Architecture)}, vocab_size=vocab_size
        )

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm stands before the head; blocks that normalise their output need none."""
        return self.norm_placement == "before"

    @property
    def up_width(self) -> int:
        """Rows of the matrix into the feed-forward layer: F, or 2 F where it also makes the gate (gate first)."""
        return 2 * self.d_ff if self.mlp == "swiglu" else self.d_ff

    @property
    def qkv_width(self) -> int:
        """Rows of the matrix that makes queries, keys and values, in this order: (H + 2 G) K."""
        return (self.n_heads + 2 * self.n_kv_heads) * self.d_head


def default_d_ff(d_model: int, mlp: MlpKind) -> int:
    """Returns the feed-forward width that follows from the model width."""
    if mlp != "swiglu":
        return 4 * d_model
    return math.ceil(8 * d_model / 3 / _SWIGLU_GROUP) * _SWIGLU_GROUP


def _require(holds: bool, message: str, hint: str = "") -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ModelConfigError(f"This model cannot be built: {message}", hint)


def _require_choices(architecture: Architecture) -> None:
    """Refuses a part that does not exist, which would otherwise be taken for another one."""
    for name, kind in options.field_types(type(architecture)).items():
        value = getattr(architecture, name)
        _require(
            typing.get_origin(kind) is not Literal or value in typing.get_args(kind),
            f"{name} = {value!r} is not {options.describe_type(kind)}.",
        )


def _divisible_hint(d_model: int, n_heads: int) -> str:
    lower = d_model // n_heads * n_heads
    near = [str(width) for width in (lower, lower + n_heads) if width > 0]
    return f"With {n_heads} heads the nearest widths are {' and '.join(near)}."
