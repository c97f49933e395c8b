"""Attention over a cache of tiles: two more products of the inner loop that all matrices go through.

For queries times keys, 32 positions are the outputs of a tile and the head's coordinates its columns; for pattern
times values, 32 coordinates are the outputs and positions the columns. So nothing is summed across lanes here either,
and a query's numbers do not depend on which others are computed beside it.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from nextok.engine.layout import to_bfloat16
from nextok.engine.multiply import FEW_ROWS, multiply_blocks, tile_bytes
from nextok.engine.tiles import F32, TILE
from nextok.jit import compiled
from nextok.jit.elementary import exp

_NUMBERS = TILE * TILE


@compiled()
def key_tile(shape: Any, layer: int, slot: int, group: int, position: int, coordinate: int) -> int:
    """Returns the number of the tile with this position and coordinate of a key."""
    head = (layer * shape.n_slots + slot) * shape.n_kv_heads + group
    return (head * shape.position_tiles + position // TILE) * shape.head_tiles + coordinate // TILE


@compiled()
def value_tile(shape: Any, layer: int, slot: int, group: int, position: int, coordinate: int) -> int:
    """Returns the number of the tile with this position and coordinate of a value; all keys come before."""
    head = (shape.n_layers + layer) * shape.n_slots * shape.n_kv_heads + slot * shape.n_kv_heads + group
    return (head * shape.head_tiles + coordinate // TILE) * shape.position_tiles + position // TILE


@compiled()
def remember(
    shapes: Any,
    layer: int,
    vectors: NDArray[np.float32],
    layers: Any,
    turns_CK: NDArray[np.float32],
    slots_M: NDArray[np.int64],
    positions_M: NDArray[np.int64],
    rows: int,
    qkv_MN: NDArray[np.float32],
    past: NDArray[np.float32],
    past_halves: NDArray[np.uint16],
) -> None:
    """Normalises and turns queries and keys where the model does, scales queries, and puts keys and values away."""
    if rows < FEW_ROWS:
        for row in range(rows):
            _remember_row(
                shapes, layer, vectors, layers, turns_CK, slots_M[row], positions_M[row], qkv_MN[row], past, past_halves
            )
    else:
        _remember_rows(shapes, layer, vectors, layers, turns_CK, slots_M, positions_M, rows, qkv_MN, past, past_halves)


@compiled(parallel=True)
def _remember_rows(
    shapes: Any,
    layer: int,
    vectors: NDArray[np.float32],
    layers: Any,
    turns_CK: NDArray[np.float32],
    slots_M: NDArray[np.int64],
    positions_M: NDArray[np.int64],
    rows: int,
    qkv_MN: NDArray[np.float32],
    past: NDArray[np.float32],
    past_halves: NDArray[np.uint16],
) -> None:
    for row in numba.prange(rows):
        _remember_row(
            shapes, layer, vectors, layers, turns_CK, slots_M[row], positions_M[row], qkv_MN[row], past, past_halves
        )


@compiled()
def _remember_row(
    shapes: Any,
    layer: int,
    vectors: NDArray[np.float32],
    layers: Any,
    turns_CK: NDArray[np.float32],
    slot: int,
    position: int,
    qkv_N: NDArray[np.float32],
    past: NDArray[np.float32],
    past_halves: NDArray[np.uint16],
) -> None:
    shape, norms = shapes[0], layers[layer]
    H, G, K = shape.n_heads, shape.n_kv_heads, shape.d_head
    for head in range(H + G):
        head_K = qkv_N[head * K : (head + 1) * K]
        if shape.has_qk_norm:
            at = norms.q_norm if head < H else norms.k_norm
            _normalise_head(head_K, vectors[at : at + K], shape.norm_eps)
        if shape.has_turns:
            _turn(head_K, turns_CK[position])
    root = np.float32(1) / np.sqrt(np.float32(K))
    for n in range(H * K):
        qkv_N[n] *= root
    for group in range(G):
        for begin in range(0, K, TILE):
            end = min(begin + TILE, K)
            key_K = qkv_N[(H + group) * K + begin : (H + group) * K + end]
            value_K = qkv_N[(H + G + group) * K + begin : (H + G + group) * K + end]
            key = key_tile(shape, layer, slot, group, position, begin) * _NUMBERS
            value = value_tile(shape, layer, slot, group, position, begin) * _NUMBERS
            if shape.past_kind == F32:
                _store(key_K, past, key + position % TILE, value_K, value + position % TILE * TILE)
            else:
                _store_halves(key_K.view(np.uint32), past_halves, key, value_K.view(np.uint32), value, position % TILE)


@compiled()
def _store(
    key_K: NDArray[np.float32], past: NDArray[np.float32], key: int, value_K: NDArray[np.float32], value: int
) -> None:
    """Writes a key down the columns of its tile, and a value along the outputs of its own."""
    for k in range(key_K.shape[0]):
        past[key + k * TILE] = key_K[k]
        past[value + k] = value_K[k]


@compiled()
def _store_halves(
    key_K: NDArray[np.uint32],
    past_halves: NDArray[np.uint16],
    key: int,
    value_K: NDArray[np.uint32],
    value: int,
    place: int,
) -> None:
    """Writes the same as bfloat16, two columns side by side; `place` is the position within its tile."""
    value += place // 2 * 2 * TILE + place % 2
    for k in range(key_K.shape[0]):
        past_halves[key + k // 2 * 2 * TILE + place * 2 + k % 2] = to_bfloat16(key_K[k])
        past_halves[value + k * 2] = to_bfloat16(value_K[k])


@compiled()
def _normalise_head(head_K: NDArray[np.float32], weight_K: NDArray[np.float32], eps: float) -> None:
    total = np.float32(0)
    for k in range(head_K.shape[0]):
        total += head_K[k] * head_K[k]
    scale = np.float32(1) / np.sqrt(total / np.float32(head_K.shape[0]) + np.float32(eps))
    for k in range(head_K.shape[0]):
        head_K[k] *= scale * weight_K[k]


@compiled()
def _turn(head_K: NDArray[np.float32], turn_K: NDArray[np.float32]) -> None:
    """Turns pairs i and i + K/2; `turn_K` holds the cosines, then the sines."""
    half = head_K.shape[0] // 2
    for i in range(half):
        first, second, cosine, sine = head_K[i], head_K[half + i], turn_K[i], turn_K[half + i]
        head_K[i] = first * cosine - second * sine
        head_K[half + i] = second * cosine + first * sine


@compiled(parallel=True)
def attend(
    shapes: Any,
    layer: int,
    firsts_P: NDArray[np.int64],
    counts_P: NDArray[np.int64],
    slots_M: NDArray[np.int64],
    positions_M: NDArray[np.int64],
    qkv_MN: NDArray[np.float32],
    past_address: int,
    mixed_MN: NDArray[np.float32],
) -> None:
    """Mixes the values that each row's queries find in its slot, up to its own position.

    Spans (`firsts_P`, `counts_P`) are runs of rows in one slot, whose queries pass over its keys together.
    """
    G = shapes[0].n_kv_heads
    for task in numba.prange(firsts_P.shape[0] * G):
        span, group = task // G, task % G
        first, count = firsts_P[span], counts_P[span]
        _attend_group(
            shapes,
            layer,
            slots_M[first],
            group,
            positions_M[first : first + count],
            qkv_MN[first : first + count],
            past_address,
            mixed_MN[first : first + count],
        )


@compiled()
def _attend_group(
    shapes: Any,
    layer: int,
    slot: int,
    group: int,
    positions_T: NDArray[np.int64],
    qkv_TN: NDArray[np.float32],
    past_address: int,
    mixed_TN: NDArray[np.float32],
) -> None:
    shape = shapes[0]
    K, shared, T = shape.d_head, shape.n_heads // shape.n_kv_heads, positions_T.shape[0]
    queries, padded_K = T * shared, shape.head_tiles * TILE
    blocks = positions_T[T - 1] // TILE + 1
    q_QK = np.zeros((queries, padded_K), np.float32)
    scores_QS = np.empty((queries, blocks * TILE), np.float32)
    for t in range(T):
        for h in range(shared):
            for k in range(K):  # loops, not slices: Numba takes seconds to compile the errors a slice could raise
                q_QK[t * shared + h, k] = qkv_TN[t, (group * shared + h) * K + k]
    kind, tile_size = shape.past_kind, tile_bytes(shape.past_kind)
    keys = past_address + key_tile(shape, layer, slot, group, 0, 0) * tile_size
    x, stride, scores = q_QK.ctypes.data, blocks * TILE * 4, scores_QS.ctypes.data
    apart = shape.head_tiles * tile_size
    multiply_blocks(kind, keys, apart, blocks, shape.head_tiles, x, padded_K * 4, queries, scores, stride)
    for query in range(queries):
        softmax(scores_QS[query], positions_T[query // shared] + 1)
    values = past_address + value_tile(shape, layer, slot, group, 0, 0) * tile_size
    apart = shape.position_tiles * tile_size  # the queries' own place takes what they found
    multiply_blocks(kind, values, apart, shape.head_tiles, blocks, scores, stride, queries, x, padded_K * 4)
    for t in range(T):
        for h in range(shared):
            for k in range(K):
                mixed_TN[t, (group * shared + h) * K + k] = q_QK[t * shared + h, k]


@compiled()
def softmax(scores_S: NDArray[np.float32], seen: int) -> None:
    """Turns the first `seen` scores into their softmax, and the others into 0, in place."""
    largest = scores_S[0]
    for s in range(1, seen):
        largest = max(largest, scores_S[s])
    total = np.float32(0)
    for s in range(seen):
        scores_S[s] = exp(scores_S[s] - largest)
        total += scores_S[s]
    inverse = np.float32(1) / total
    for s in range(seen):
        scores_S[s] *= inverse
    for s in range(seen, scores_S.shape[0]):
        scores_S[s] = np.float32(0)
