"""The whole model for a few rows of tokens, in one compiled function: no Python between layers.

    x = tokens[ids] + positions            (or no table, with rotary positions)
    x = x + attention(norm(x))             for each block
    x = x + feed_forward(norm(x))
    logits = head(norm(x))

Axes: M rows, one token each, P runs of rows in one slot, D width, F feed-forward width, N outputs, V vocabulary.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from nextok.engine.attention import attend, remember
from nextok.engine.layout import element
from nextok.engine.multiply import FEW_ROWS, multiply
from nextok.engine.plan import GELU, GELU_TANH, RELU, RELU2
from nextok.jit import compiled
from nextok.jit.elementary import gelu, gelu_tanh, sigmoid, tanh

_ZERO = np.float32(0)


@compiled()
def forward(
    shapes: Any,
    layers: Any,
    matrices: Any,
    vectors: NDArray[np.float32],
    arena: NDArray[np.uint8],
    arena_halves: NDArray[np.uint16],
    arena_floats: NDArray[np.float32],
    turns_CK: NDArray[np.float32],
    past: NDArray[np.float32],
    past_halves: NDArray[np.uint16],
    ids_M: NDArray[np.int64],
    pairs_M: NDArray[np.int64],
    slots_M: NDArray[np.int64],
    positions_M: NDArray[np.int64],
    firsts_P: NDArray[np.int64],
    counts_P: NDArray[np.int64],
    first_logits: int,
    x_MD: NDArray[np.float32],
    h_MD: NDArray[np.float32],
    narrow: NDArray[np.uint8],
    qkv_MN: NDArray[np.float32],
    mixed_MN: NDArray[np.float32],
    up_MF: NDArray[np.float32],
    active_MF: NDArray[np.float32],
    logits_MV: NDArray[np.float32],
) -> None:
    """Reads one token a row and writes the logits after those from `first_logits` on.

    Args:
        shapes: One record of `plan.SHAPE`.
        layers: A record of `plan.LAYER` for each layer, and one for the last norm.
        matrices: Records of `plan.MATRIX`: four a layer, then the embedding, then the head.
        vectors: Every vector of the model.
        arena: Every matrix of the model.
        arena_halves: The same memory as 16-bit numbers.
        arena_floats: The same memory as float32.
        turns_CK: Cosines and sines of each position; empty where positions are learned.
        past: Keys and values.
        past_halves: The same memory as 16-bit numbers.
        ids_M: The tokens.
        pairs_M: The row of each token and the one before it in the table of pairs; below 0 where there is none.
        slots_M: Their slots.
        positions_M: Their positions.
        firsts_P: First row of each run of rows in one slot.
        counts_P: Rows of each run.
        first_logits: The first row whose logits are wanted.
        x_MD: Scratch, as the rest but the last: the residual stream.
        h_MD: Normalised, or a product to be added.
        narrow: Inputs of fewer bits.
        qkv_MN: Queries, keys, values.
        mixed_MN: Mixed values.
        up_MF: Before the activation.
        active_MF: After it.
        logits_MV: The result, from row 0 on.
    """
    shape, rows, past_address = shapes[0], ids_M.shape[0], past.ctypes.data
    last = shape.n_layers
    _embed(shapes, matrices[4 * last], vectors, arena, arena_halves, arena_floats, ids_M, pairs_M, positions_M, x_MD)
    for layer in range(last):
        norms = layers[layer]
        source_MD = x_MD
        if shape.norms_first:
            _normalise(shapes, vectors, norms.norm1, norms.norm1_bias, x_MD, h_MD, rows)
            source_MD = h_MD
        multiply(matrices[4 * layer], vectors, source_MD, narrow, rows, qkv_MN, x_MD)
        remember(shapes, layer, vectors, layers, turns_CK, slots_M, positions_M, rows, qkv_MN, past, past_halves)
        attend(shapes, layer, firsts_P, counts_P, slots_M, positions_M, qkv_MN, past_address, mixed_MN)
        multiply(matrices[4 * layer + 1], vectors, mixed_MN, narrow, rows, h_MD, x_MD)
        if shape.norms_first:
            _normalise(shapes, vectors, norms.norm2, norms.norm2_bias, x_MD, h_MD, rows)
        else:
            _normalise(shapes, vectors, norms.norm1, norms.norm1_bias, x_MD, x_MD, rows)
        multiply(matrices[4 * layer + 2], vectors, source_MD, narrow, rows, up_MF, x_MD)
        _activate(shapes, up_MF, active_MF, rows)
        multiply(matrices[4 * layer + 3], vectors, active_MF, narrow, rows, h_MD, x_MD)
        if not shape.norms_first:
            _normalise(shapes, vectors, norms.norm2, norms.norm2_bias, x_MD, x_MD, rows)
    wanted = rows - first_logits
    for row in range(wanted):
        for d in range(x_MD.shape[1]):
            h_MD[row, d] = x_MD[first_logits + row, d]
    if shape.norms_first:
        _normalise(shapes, vectors, layers[last].norm1, layers[last].norm1_bias, h_MD, h_MD, wanted)
    multiply(matrices[4 * last + 1], vectors, h_MD, narrow, wanted, logits_MV, x_MD)
    if shape.softcap > 0:
        _cap(logits_MV, wanted, np.float32(shape.softcap))


@compiled()
def _embed(
    shapes: Any,
    table: Any,
    vectors: NDArray[np.float32],
    arena: NDArray[np.uint8],
    arena_halves: NDArray[np.uint16],
    arena_floats: NDArray[np.float32],
    ids_M: NDArray[np.int64],
    pairs_M: NDArray[np.int64],
    positions_M: NDArray[np.int64],
    x_MD: NDArray[np.float32],
) -> None:
    shape = shapes[0]
    for row in range(ids_M.shape[0]):
        token, scale = ids_M[row], vectors[table.scales + ids_M[row]]
        for d in range(shape.d_model):
            weight = element(table.kind, arena, arena_halves, arena_floats, table.begin, table.across, token, d)
            x_MD[row, d] = weight * scale
        if shape.has_positions:
            at = shape.positions + positions_M[row] * shape.d_model
            for d in range(shape.d_model):
                x_MD[row, d] += vectors[at + d]
        if pairs_M[row] >= 0:
            at = shape.bigrams + pairs_M[row] * shape.d_model
            for d in range(shape.d_model):
                x_MD[row, d] += vectors[at + d]


@compiled()
def _normalise(
    shapes: Any,
    vectors: NDArray[np.float32],
    weight: int,
    bias: int,
    x_MD: NDArray[np.float32],
    out_MD: NDArray[np.float32],
    rows: int,
) -> None:
    D = shapes[0].d_model
    weight_D, bias_D = vectors[weight : weight + D], vectors[bias : bias + D]
    if rows < FEW_ROWS:
        for row in range(rows):
            _normalise_row(shapes, weight_D, bias_D, x_MD[row], out_MD[row])
    else:
        _normalise_rows(shapes, weight_D, bias_D, x_MD, out_MD, rows)


@compiled(parallel=True)
def _normalise_rows(
    shapes: Any,
    weight_D: NDArray[np.float32],
    bias_D: NDArray[np.float32],
    x_MD: NDArray[np.float32],
    out_MD: NDArray[np.float32],
    rows: int,
) -> None:
    for row in numba.prange(rows):
        _normalise_row(shapes, weight_D, bias_D, x_MD[row], out_MD[row])


@compiled()
def _normalise_row(
    shapes: Any,
    weight_D: NDArray[np.float32],
    bias_D: NDArray[np.float32],
    x_D: NDArray[np.float32],
    out_D: NDArray[np.float32],
) -> None:
    shape, D = shapes[0], weight_D.shape[0]
    mean, squares = _ZERO, _ZERO
    if shape.centres:  # LayerNorm; RMSNorm does not subtract the mean
        for d in range(D):
            mean += x_D[d]
        mean /= np.float32(D)
    for d in range(D):
        squares += (x_D[d] - mean) * (x_D[d] - mean)
    scale = np.float32(1) / np.sqrt(squares / np.float32(D) + np.float32(shape.norm_eps))
    for d in range(D):
        out_D[d] = (x_D[d] - mean) * scale * weight_D[d] + bias_D[d]


@compiled()
def _activate(shapes: Any, up_MF: NDArray[np.float32], active_MF: NDArray[np.float32], rows: int) -> None:
    if rows < FEW_ROWS:
        for row in range(rows):
            _activate_row(shapes, up_MF[row], active_MF[row])
    else:
        _activate_rows(shapes, up_MF, active_MF, rows)


@compiled(parallel=True)
def _activate_rows(shapes: Any, up_MF: NDArray[np.float32], active_MF: NDArray[np.float32], rows: int) -> None:
    for row in numba.prange(rows):
        _activate_row(shapes, up_MF[row], active_MF[row])


@compiled()
def _activate_row(shapes: Any, up_F: NDArray[np.float32], active_F: NDArray[np.float32]) -> None:
    shape = shapes[0]
    F = shape.d_ff
    if shape.mlp == GELU_TANH:
        for f in range(F):
            active_F[f] = gelu_tanh(up_F[f])
    elif shape.mlp == GELU:
        for f in range(F):
            active_F[f] = gelu(up_F[f])
    elif shape.mlp == RELU:
        for f in range(F):
            active_F[f] = max(up_F[f], _ZERO)
    elif shape.mlp == RELU2:
        for f in range(F):
            active_F[f] = max(up_F[f], _ZERO) * max(up_F[f], _ZERO)
    else:  # SwiGLU: gates first, then values
        for f in range(F):
            active_F[f] = up_F[f] * sigmoid(up_F[f]) * up_F[F + f]


@compiled(parallel=True)
def _cap(logits_MV: NDArray[np.float32], rows: int, cap: np.float32) -> None:
    for row in numba.prange(rows):
        for v in range(logits_MV.shape[1]):
            logits_MV[row, v] = cap * tanh(logits_MV[row, v] / cap)
