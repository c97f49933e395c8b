"""From one wide product to heads: normalised, turned by their positions, laid out for attention; and back.

Axes: B sequences, T positions, N = B T rows, H heads, G heads of keys and values, K head width. A row holds queries,
keys and values one after another: (H + 2 G) K numbers.

A turned head is x cos + partner sin, where the partner of coordinate i is i + K/2 (or i - K/2), and sin carries its
sign. Writing a head twice in a row makes the partner a plain offset, so that the loop runs over whole vectors. Arrays
are flat, because Numba counts who holds a view, which costs more than a head; offsets are unsigned, because one that
could be negative counts from the end, and asking so of each number keeps a loop from becoming vectors.
"""

from typing import Any

import numba
import numpy as np

from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide

_ONE, _NOTHING = np.float32(1), np.float32(0)


@compiled()
def _turn(
    rows: Any, start: Any, weight_K: Any, eps: Any, cos_TK: Any, sin_TK: Any, t: Any, twice: Any, out: Any, at: Any
) -> Any:
    """Writes one head, normalised and turned; returns 1 over its root mean square (1 where nothing is normalised)."""
    K = np.uint64(cos_TK.shape[1])
    inverse = _ONE
    if weight_K.shape[0] > 0:
        square = _NOTHING
        for k in range(K):
            number = wide(rows[start + k])
            square += number * number
        inverse = _ONE / np.sqrt(square / np.float32(K) + eps)
        for k in range(K):
            number = wide(rows[start + k]) * inverse * weight_K[k]
            twice[k] = number
            twice[K + k] = number
    else:
        for k in range(K):
            number = wide(rows[start + k])
            twice[k] = number
            twice[K + k] = number
    half = K // np.uint64(2)
    for k in range(K):
        out[at + k] = narrow(twice[k] * cos_TK[t, k] + twice[half + k] * sin_TK[t, k], out)
    return inverse


@compiled()
def _turn_back(
    rows: Any,
    start: Any,
    weight_K: Any,
    inverse: Any,
    cos_TK: Any,
    sin_TK: Any,
    t: Any,
    d_out: Any,
    at: Any,
    twice: Any,
    turned: Any,
    d_rows: Any,
    d_weight_K: Any,
) -> None:
    """Writes the gradient of one head as it stood in its row; adds that of the norm's weight."""
    K = np.uint64(cos_TK.shape[1])
    for k in range(K):
        number = wide(d_out[at + k])
        twice[k] = number
        twice[K + k] = number
    half = K // np.uint64(2)
    for k in range(K):
        turned[k] = twice[k] * cos_TK[t, k] - twice[half + k] * sin_TK[t, k]
    if weight_K.shape[0] == 0:
        for k in range(K):
            d_rows[start + k] = narrow(turned[k], d_rows)
        return
    for k in range(K):  # twice is free: the normalised head
        twice[k] = wide(rows[start + k]) * inverse
    along = _NOTHING
    for k in range(K):
        d_weight_K[k] += turned[k] * twice[k]
    for k in range(K):
        turned[k] *= weight_K[k]
    for k in range(K):
        along += turned[k] * twice[k]
    along /= np.float32(K)
    for k in range(K):
        d_rows[start + k] = narrow(inverse * (turned[k] - twice[k] * along), d_rows)


@compiled(parallel=True)
def split_heads(
    qkv: Any,
    q_weight_K: Any,
    k_weight_K: Any,
    eps: Any,
    cos_TK: Any,
    sin_TK: Any,
    heads: Any,
    groups: Any,
    q: Any,
    k: Any,
    v: Any,
    inverse_NJ: Any,
) -> None:
    """Writes queries, keys and values; an empty weight means no norm. `inverse` keeps H + G numbers a row."""
    T, K = np.uint64(cos_TK.shape[0]), np.uint64(cos_TK.shape[1])
    H, G = np.uint64(heads), np.uint64(groups)
    M = (H + G + G) * K
    for b in numba.prange(inverse_NJ.shape[0] // cos_TK.shape[0]):
        twice = np.empty(K + K, np.float32)
        for t in range(T):
            n = np.uint64(b) * T + t
            for h in range(H):
                at = ((np.uint64(b) * H + h) * T + t) * K
                inverse_NJ[n, h] = _turn(qkv, n * M + h * K, q_weight_K, eps, cos_TK, sin_TK, t, twice, q, at)
            for g in range(G):
                at, start = ((np.uint64(b) * G + g) * T + t) * K, n * M + (H + g) * K
                inverse_NJ[n, H + g] = _turn(qkv, start, k_weight_K, eps, cos_TK, sin_TK, t, twice, k, at)
                for each in range(K):
                    v[at + each] = qkv[start + G * K + each]


@compiled(parallel=True)
def split_heads_backward(
    d_q: Any,
    d_k: Any,
    d_v: Any,
    qkv: Any,
    q_weight_K: Any,
    k_weight_K: Any,
    cos_TK: Any,
    sin_TK: Any,
    inverse_NJ: Any,
    heads: Any,
    groups: Any,
    d_qkv: Any,
    d_q_weight_BK: Any,
    d_k_weight_BK: Any,
) -> None:
    """Writes the gradient of the rows, and those of the norms' weights for each sequence."""
    T, K = np.uint64(cos_TK.shape[0]), np.uint64(cos_TK.shape[1])
    H, G = np.uint64(heads), np.uint64(groups)
    M = (H + G + G) * K
    for b in numba.prange(inverse_NJ.shape[0] // cos_TK.shape[0]):
        twice, turned = np.empty(K + K, np.float32), np.empty(K, np.float32)
        d_q_weight_K, d_k_weight_K = d_q_weight_BK[b], d_k_weight_BK[b]
        for t in range(T):
            n = np.uint64(b) * T + t
            for h in range(H):
                at, start, inverse = ((np.uint64(b) * H + h) * T + t) * K, n * M + h * K, inverse_NJ[n, h]
                _turn_back(
                    qkv, start, q_weight_K, inverse, cos_TK, sin_TK, t, d_q, at, twice, turned, d_qkv, d_q_weight_K
                )
            for g in range(G):
                at, start, inverse = ((np.uint64(b) * G + g) * T + t) * K, n * M + (H + g) * K, inverse_NJ[n, H + g]
                _turn_back(
                    qkv, start, k_weight_K, inverse, cos_TK, sin_TK, t, d_k, at, twice, turned, d_qkv, d_k_weight_K
                )
                for each in range(K):
                    d_qkv[start + G * K + each] = d_v[at + each]
