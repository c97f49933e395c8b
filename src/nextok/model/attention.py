"""Causal self-attention: softmax(Q K^T / sqrt(K) + mask) V, in several heads.

Axes: B batch, T queries, S keys, H heads, G heads of keys and values, K head width.
`fused_attention` is fast; `stepwise_attention` is the formula, line by line, and shows every score. They agree to 1e-5.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nextok.model.norm import RMSNorm
from nextok.model.rotary import Rotation
from nextok.model.taps import Taps
from nextok.spec import ModelConfig

Attend = Callable[[int, Tensor, Tensor, Tensor, Taps], Tensor]
"""(layer, q_BHTK, k_BGTK, v_BGTK, the layer's taps) -> mixed_BHTK"""

STEPS = ("scores", "scaled", "masked", "pattern")
"""The hook points that fused attention has no values for."""


class Attention(nn.Module):
    """Every position asks (q) what earlier positions hold (k) and takes their values (v) in proportion."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.K, self.G = layer, config.d_head, config.n_kv_heads
        self.causal = config.mask == "causal"
        self.dropout = config.dropout
        self.eager = False
        self.qkv = nn.Linear(config.d_model, config.qkv_width, bias=config.bias)
        # queries and keys of length sqrt(K) each: scores stay in range whatever the weights do
        self.q_norm = RMSNorm(config.d_head, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.d_head, config.norm_eps) if config.qk_norm else None
        self.out = nn.Linear(config.n_heads * config.d_head, config.d_model, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], rotate: Rotation | None, attend: Attend | None, taps: Taps
    ) -> Float[Tensor, "B T D"]:
        """Returns what this layer adds to the residual stream, `[B, T, D]`."""
        q_BHTK, k_BGTK, v_BGTK = self._project(x_BTD, rotate)
        q_BHTK, k_BGTK, v_BGTK = taps("q", q_BHTK), taps("k", k_BGTK), taps("v", v_BGTK)
        if attend is not None:
            mixed_BHTK = attend(self.layer, q_BHTK, k_BGTK, v_BGTK, taps)
        else:
            mixed_BHTK = self._attend(q_BHTK, k_BGTK, v_BGTK, taps)
        mixed_BHTK = taps("mixed", mixed_BHTK)
        return taps("out", self.drop(self.out(mixed_BHTK.transpose(1, 2).flatten(2))))

    def _project(self, x_BTD: Tensor, rotate: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        heads_BTNK = self.qkv(x_BTD).unflatten(-1, (-1, self.K))
        n_heads = heads_BTNK.shape[2] - 2 * self.G
        q, k, v = heads_BTNK.transpose(1, 2).split([n_heads, self.G, self.G], dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        return (q, k, v) if rotate is None else (rotate(q), rotate(k), v)

    def _attend(self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, taps: Taps) -> Tensor:
        k_BHTK, v_BHTK = share_heads(k_BGTK, q_BHTK.shape[1]), share_heads(v_BGTK, q_BHTK.shape[1])
        dropout = self.dropout if self.training else 0.0
        if self.eager or taps.replaces(*STEPS):
            return stepwise_attention(q_BHTK, k_BHTK, v_BHTK, causal=self.causal, dropout=dropout, taps=taps)
        if taps.records(*STEPS):
            stepwise_attention(q_BHTK, k_BHTK, v_BHTK, causal=self.causal, dropout=0.0, taps=taps)
        return fused_attention(q_BHTK, k_BHTK, v_BHTK, causal=self.causal, dropout=dropout)


def fused_attention(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BHSK: Float[Tensor, "B H S K"],
    v_BHSK: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """Returns softmax(Q K^T / sqrt(K) + mask) V, `[B, H, T, K]`; queries stand at the last T of the S positions."""
    T, S = q_BHTK.shape[-2], k_BHSK.shape[-2]
    # torch's is_causal aligns the mask at the first key, which is wrong whenever S > T
    mask = causal_mask(T, S, q_BHTK.device) if causal and 1 < T < S else None
    return F.scaled_dot_product_attention(
        q_BHTK, k_BHSK, v_BHSK, attn_mask=mask, dropout_p=dropout, is_causal=causal and T == S
    )


def stepwise_attention(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BHSK: Float[Tensor, "B H S K"],
    v_BHSK: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    dropout: float,
    taps: Taps,
) -> Float[Tensor, "B H T K"]:
    """Returns the same, one line of the formula at a time, showing each result to `taps`.

    A query that a replaced mask leaves no key takes nothing: its row of the pattern, and so of the result, is 0.
    """
    scores_BHTS = taps("scores", q_BHTK @ k_BHSK.mT)
    scaled_BHTS = taps("scaled", scores_BHTS / math.sqrt(q_BHTK.shape[-1]))
    masked_BHTS = scaled_BHTS
    if causal:
        allowed_TS = causal_mask(q_BHTK.shape[-2], k_BHSK.shape[-2], q_BHTK.device)
        masked_BHTS = scaled_BHTS.masked_fill(~allowed_TS, -math.inf)
    pattern_BHTS = taps("pattern", _softmax(taps("masked", masked_BHTS)))
    return F.dropout(pattern_BHTS, dropout) @ v_BHSK


def _softmax(masked_BHTS: Tensor) -> Tensor:
    # a row of nothing but -inf would give NaN, and NaN gradients even where its result is thrown away
    blind_BHT1 = (masked_BHTS == -math.inf).all(dim=-1, keepdim=True)
    return masked_BHTS.masked_fill(blind_BHT1, 0.0).softmax(dim=-1).masked_fill(blind_BHT1, 0.0)


def causal_mask(T: int, S: int, device: torch.device) -> Bool[Tensor, "T S"]:
    """Returns True where a query may look, `[T, S]`: at its own position and before; queries are the last T of S."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


def share_heads(x_BGSK: Float[Tensor, "B G S K"], n_heads: int) -> Float[Tensor, "B H S K"]:
    """Returns keys or values with each of the G heads standing for H / G query heads in a row, `[B, H, S, K]`."""
    G = x_BGSK.shape[1]
    return x_BGSK if n_heads == G else x_BGSK.repeat_interleave(n_heads // G, dim=1)
