"""The engine's arithmetic written again in NumPy, in float64 between its roundings: what the compiled code must give.

Weights are what the packed model stands for. Where the machine multiplies bytes or pairs of bfloat16, inputs are
rounded as the engine rounds them; keys and values are rounded to what the cache holds. Nothing else is.
"""

from collections.abc import Callable, Iterable, Mapping
from math import erf

import numpy as np
from numpy.typing import NDArray

from nextok.engine import PackedModel
from nextok.engine.target import multiplies_bytes, multiplies_pairs
from nextok.spec import ModelConfig

Array = NDArray[np.float64]
Rounding = Callable[[Array], Array]

_ERF = np.vectorize(erf, otypes=[np.float64])


def to_bf16(x: NDArray) -> NDArray[np.float32]:
    """Returns the nearest bfloat16, ties to the even one, as float32."""
    exact = np.asarray(x, np.float32)
    down = (exact.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    up = ((exact.view(np.uint32) & np.uint32(0xFFFF0000)) + np.uint32(0x10000)).view(np.float32)
    wide = up.astype(np.float64)
    wide = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)  # infinity is next after the largest
    below, above = np.abs(exact.astype(np.float64) - down), np.abs(wide - exact)
    odd = (down.view(np.uint32) >> 16) & 1 == 1
    return np.where((above < below) | ((above == below) & odd), up, down)


def to_groups(x: NDArray) -> Array:
    """Returns rows as 32 int8 and a scale stand for them; -127 to 127, the largest at either end."""
    rows, width = x.shape
    padded = np.zeros((rows, -(-width // 32) * 32), np.float32)
    padded[:, :width] = x
    groups = padded.reshape(rows, -1, 32)
    scales = np.abs(groups).max(axis=-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore"):
        inverse = np.where(scales > 0, np.float32(1) / scales, np.float32(0))
    whole = np.rint(groups * inverse).astype(np.float64)
    return (whole * scales.astype(np.float64)).reshape(rows, -1)[:, :width]


def input_rounding(packed: PackedModel) -> Rounding:
    """Returns what happens to the inputs of matrices."""
    if packed.precision in ("int8", "int4") and multiplies_bytes():
        return to_groups
    if packed.precision == "bf16" and multiplies_pairs():
        return to_bf16
    return lambda x: x


def twin_logits(packed: PackedModel, ids: Iterable[int], *, cache: str | None = None) -> Array:
    """Returns the logits `[T, V]` of one pass over the ids."""
    keep = cache or ("fp32" if packed.precision == "fp32" else "bf16")
    weights = {name: weight.astype(np.float64) for name, weight in packed.weights().items()}
    return _Twin(packed, weights, to_bf16 if keep == "bf16" else lambda x: x).logits(np.array(list(ids)))


class _Twin:
    def __init__(self, packed: PackedModel, weights: Mapping[str, Array], keep: Rounding) -> None:
        self.packed, self.config, self.weights, self.keep = packed, packed.config, weights, keep

    def logits(self, ids_T: NDArray[np.int64]) -> Array:
        config, weights = self.config, self.weights
        x_TD = weights["embed.tokens.weight"][ids_T]
        if config.position == "learned":
            x_TD = x_TD + weights["embed.positions.weight"][: len(ids_T)]
        if config.bigrams:
            pairs_T = (ids_T[:-1] * config.vocab_size + ids_T[1:]) % config.bigrams
            x_TD[1:] = x_TD[1:] + weights["embed.bigrams.weight"][pairs_T]
        for layer in range(config.n_layers):
            at = f"blocks.{layer}."
            if config.norm_placement == "before":
                x_TD = x_TD + self.attention(at, self.norm(at + "norm1", x_TD))
                x_TD = x_TD + self.feed_forward(at, self.norm(at + "norm2", x_TD))
            else:
                x_TD = self.norm(at + "norm1", x_TD + self.attention(at, x_TD))
                x_TD = self.norm(at + "norm2", x_TD + self.feed_forward(at, x_TD))
        if config.has_final_norm:
            x_TD = self.norm("final_norm", x_TD)
        logits_TV = self.linear("embed.tokens" if config.tied_head else "head", x_TD)
        cap = config.logit_softcap
        return cap * np.tanh(logits_TV / cap) if cap else logits_TV

    def linear(self, name: str, x_TK: Array) -> Array:
        rounded_TK = input_rounding(self.packed)(x_TK).astype(np.float64)
        y_TN = rounded_TK @ self.weights[f"{name}.weight"].T
        is_head = name in ("embed.tokens", "head")
        return y_TN if is_head else y_TN + self.weights.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x_TD: Array) -> Array:
        centred_TD = x_TD - x_TD.mean(-1, keepdims=True) if self.config.norm == "layernorm" else x_TD
        scaled_TD = centred_TD / np.sqrt((centred_TD**2).mean(-1, keepdims=True) + self.config.norm_eps)
        return scaled_TD * self.weights[f"{name}.weight"] + self.weights.get(f"{name}.bias", 0.0)

    def attention(self, at: str, x_TD: Array) -> Array:
        config, T = self.config, len(x_TD)
        H, G, K = config.n_heads, config.n_kv_heads, config.d_head
        q_THK, k_TGK, v_TGK = np.split(self.linear(at + "attn.qkv", x_TD).reshape(T, -1, K), [H, H + G], axis=1)
        if config.qk_norm:
            q_THK, k_TGK = (
                each / np.sqrt((each**2).mean(-1, keepdims=True) + config.norm_eps)
                * self.weights[f"{at}attn.{part}_norm.weight"]
                for part, each in (("q", q_THK), ("k", k_TGK))
            )  # fmt: skip
        if config.position == "rope":
            q_THK, k_TGK = turned(config, q_THK), turned(config, k_TGK)
        k_TGK, v_TGK = self.keep(k_TGK).astype(np.float64), self.keep(v_TGK).astype(np.float64)
        k_SHK, v_SHK = (np.repeat(each, H // G, axis=1) for each in (k_TGK, v_TGK))
        scores_HTS = np.einsum("thk,shk->hts", q_THK, k_SHK) / np.sqrt(K)
        scores_HTS[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        weights_HTS = np.exp(scores_HTS - scores_HTS.max(-1, keepdims=True))
        weights_HTS /= weights_HTS.sum(-1, keepdims=True)
        mixed_TD = np.einsum("hts,shk->thk", weights_HTS, v_SHK).reshape(T, -1)
        return self.linear(at + "attn.out", mixed_TD)

    def feed_forward(self, at: str, x_TD: Array) -> Array:
        up_TF = self.linear(at + "mlp.up", x_TD)
        return self.linear(at + "mlp.down", activated(self.config, up_TF))


def turned(config: ModelConfig, x_THK: Array) -> Array:
    """Returns heads turned by the angles of positions 0 .. T - 1; the angles are float32, as in the model."""
    powers = np.arange(0, config.d_head, 2, dtype=np.float32) / np.float32(config.d_head)
    angles = np.arange(len(x_THK), dtype=np.float32)[:, None, None] * np.float32(config.rope_base) ** -powers
    cosine, sine = np.cos(angles.astype(np.float64)), np.sin(angles.astype(np.float64))
    first, second = np.split(x_THK, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def activated(config: ModelConfig, up_TF: Array) -> Array:
    if config.mlp == "swiglu":
        gate_TF, value_TF = np.split(up_TF, 2, axis=-1)
        return gate_TF / (1 + np.exp(-gate_TF)) * value_TF
    if config.mlp == "gelu":
        return up_TF / 2 * (1 + _ERF(up_TF / np.sqrt(2)))
    if config.mlp == "gelu_tanh":
        return up_TF / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (up_TF + 0.044715 * up_TF**3)))
    return np.maximum(up_TF, 0) ** (2 if config.mlp == "relu2" else 1)
