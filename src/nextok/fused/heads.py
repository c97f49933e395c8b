"""From one wide product to heads: normalised, turned by their positions, laid out for attention; and back.

Axes: B sequences, T positions, N = B T rows, H heads, G heads of keys and values, K head width. A row holds queries,
keys and values one after another: (H + 2 G) K numbers.

A turned head is x cos + partner sin, where the partner of coordinate i is i + K/2 (or i - K/2), and sin carries its
sign. Writing a head twice in a row makes the partner a plain offset, so that the loop runs over whole vectors.
"""

from typing import Any

import numba
import numpy as np

from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide

_ONE, _NOTHING = np.float32(1), np.float32(0)


@compiled()
def _turn(row: Any, start: Any, weight_K: Any, eps: Any, cos_K: Any, sin_K: Any, twice: Any, out_K: Any) -> Any:
    """Writes one head, normalised and turned; returns 1 over its root mean square (1 where nothing is normalised)."""
    K = out_K.shape[0]
    inverse = _ONE
    if weight_K.shape[0] > 0:
        square = _NOTHING
        for k in range(K):
            number = wide(row[start + k])
            square += number * number
        inverse = _ONE / np.sqrt(square / np.float32(K) + eps)
        for k in range(K):
            twice[k] = wide(row[start + k]) * inverse * weight_K[k]
    else:
        for k in range(K):
            twice[k] = wide(row[start + k])
    for k in range(K):
        twice[K + k] = twice[k]
    half = K // 2
    for k in range(K):
        out_K[k] = narrow(twice[k] * cos_K[k] + twice[half + k] * sin_K[k], out_K)
    return inverse


@compiled()
def _turn_back(
    row: Any,
    start: Any,
    weight_K: Any,
    inverse: Any,
    cos_K: Any,
    sin_K: Any,
    d_out_K: Any,
    twice: Any,
    d_row: Any,
    d_weight_K: Any,
) -> None:
    """Writes the gradient of one head as it stood in its row; adds that of the norm's weight."""
    K = d_out_K.shape[0]
    for k in range(K):
        twice[k] = wide(d_out_K[k])
    for k in range(K):
        twice[K + k] = twice[k]
    half = K // 2
    if weight_K.shape[0] == 0:
        for k in range(K):
            d_row[start + k] = narrow(twice[k] * cos_K[k] - twice[half + k] * sin_K[k], d_row)
        return
    along = _NOTHING
    for k in range(K):
        gradient = twice[k] * cos_K[k] - twice[half + k] * sin_K[k]
        unit = wide(row[start + k]) * inverse
        d_weight_K[k] += gradient * unit
        along += gradient * weight_K[k] * unit
    along /= np.float32(K)
    for k in range(K):
        gradient = twice[k] * cos_K[k] - twice[half + k] * sin_K[k]
        unit = wide(row[start + k]) * inverse
        d_row[start + k] = narrow(inverse * (gradient * weight_K[k] - unit * along), d_row)


@compiled(parallel=True)
def split_heads(
    qkv_NM: Any,
    q_weight_K: Any,
    k_weight_K: Any,
    eps: Any,
    cos_TK: Any,
    sin_TK: Any,
    q_BHTK: Any,
    k_BGTK: Any,
    v_BGTK: Any,
    inverse_NJ: Any,
) -> None:
    """Writes queries, keys and values; an empty weight means no norm. `inverse` keeps H + G numbers a row."""
    B, H, T, K = q_BHTK.shape
    G = k_BGTK.shape[1]
    for b in numba.prange(B):
        twice = np.empty(2 * K, np.float32)
        for t in range(T):
            row, inverse_J, cos_K, sin_K = qkv_NM[b * T + t], inverse_NJ[b * T + t], cos_TK[t], sin_TK[t]
            for h in range(H):
                inverse_J[h] = _turn(row, h * K, q_weight_K, eps, cos_K, sin_K, twice, q_BHTK[b, h, t])
            for g in range(G):
                inverse_J[H + g] = _turn(row, (H + g) * K, k_weight_K, eps, cos_K, sin_K, twice, k_BGTK[b, g, t])
                v_K, start = v_BGTK[b, g, t], (H + G + g) * K
                for k in range(K):
                    v_K[k] = row[start + k]


@compiled(parallel=True)
def split_heads_backward(
    d_q_BHTK: Any,
    d_k_BGTK: Any,
    d_v_BGTK: Any,
    qkv_NM: Any,
    q_weight_K: Any,
    k_weight_K: Any,
    cos_TK: Any,
    sin_TK: Any,
    inverse_NJ: Any,
    d_qkv_NM: Any,
    d_q_weight_BK: Any,
    d_k_weight_BK: Any,
) -> None:
    """Writes the gradient of the rows, and those of the norms' weights for each sequence."""
    B, H, T, K = d_q_BHTK.shape
    G = d_k_BGTK.shape[1]
    for b in numba.prange(B):
        twice = np.empty(2 * K, np.float32)
        d_q_weight_K, d_k_weight_K = d_q_weight_BK[b], d_k_weight_BK[b]
        for t in range(T):
            row, d_row, inverse_J = qkv_NM[b * T + t], d_qkv_NM[b * T + t], inverse_NJ[b * T + t]
            cos_K, sin_K = cos_TK[t], sin_TK[t]
            for h in range(H):
                d_K = d_q_BHTK[b, h, t]
                _turn_back(row, h * K, q_weight_K, inverse_J[h], cos_K, sin_K, d_K, twice, d_row, d_q_weight_K)
            for g in range(G):
                d_K, at = d_k_BGTK[b, g, t], (H + g) * K
                _turn_back(row, at, k_weight_K, inverse_J[H + g], cos_K, sin_K, d_K, twice, d_row, d_k_weight_K)
                d_v_K, start = d_v_BGTK[b, g, t], (H + G + g) * K
                for k in range(K):
                    d_row[start + k] = d_v_K[k]
