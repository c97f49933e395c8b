"""Rows of inputs times packed matrices: quantising inputs where the machine multiplies bytes, and sharing out the work.

Each 32 outputs are one task. A thread takes a run of them, so that it reads one stretch of memory from end to end, and
takes all rows of inputs past a tile while it is in the cache: a batch costs little more than one row.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from nextok.engine.layout import to_bfloat16
from nextok.engine.target import multiplies_bytes, multiplies_pairs
from nextok.engine.tiles import (
    BF16,
    BYTE_FORMATS,
    F32,
    FLOAT_FORMATS,
    GROUP_BYTES,
    INT4,
    INT8,
    PAIR_FORMATS,
    PAIRS_OF_BF16,
    TILE,
    TILE_BYTES,
    WIDENED_FORMATS,
    make_multiplier,
)
from nextok.jit import compiled

_BYTES, _PAIRS = multiplies_bytes(), multiplies_pairs()
_WIDE_FORMATS = FLOAT_FORMATS | (PAIR_FORMATS if _PAIRS else {})
_FORMATS = _WIDE_FORMATS | (BYTE_FORMATS if _BYTES else WIDENED_FORMATS)
# Sums, weights and inputs must fit into 32 registers, or the loop spends its time on spilling them: eight rows of
# float32 sums do, but only four of int8, which need whole numbers beside.
_multiply_1, _multiply_2, _multiply_4 = (make_multiplier(rows, _FORMATS) for rows in (1, 2, 4))
_multiply_8 = make_multiplier(8, _WIDE_FORMATS)
# One row of one block is a single chain of additions, each waiting for the one before; two blocks are two chains.
_multiply_1_by_2 = make_multiplier(1, FLOAT_FORMATS, blocks=2)
FEW_ROWS = 4
"""Rows from which a parallel region is worth what it costs."""
_TILE_F32, _TILE_BF16, _TILE_INT8, _TILE_INT4 = (TILE_BYTES[kind] for kind in (F32, BF16, INT8, INT4))


@compiled()
def tile_bytes(kind: int) -> int:
    """Returns the bytes of a tile of this format."""
    if kind == F32:
        return _TILE_F32
    if kind in (BF16, PAIRS_OF_BF16):
        return _TILE_BF16
    return _TILE_INT8 if kind == INT8 else _TILE_INT4


@compiled()
def multiply_block(
    kind: int, weights: int, across: int, x: int, x_stride: int, rows: int, out: int, stride: int
) -> None:
    """Writes the 32 outputs of one stretch of tiles for all rows.

    Args:
        kind: The format.
        weights: Address of the first tile.
        across: Number of tiles.
        x: Address of the first row's inputs.
        x_stride: Bytes from one row of inputs to the next.
        rows: How many rows.
        out: Address of the first row's outputs.
        stride: Bytes from one row of outputs to the next.
    """
    row = 0
    if kind in (F32, BF16, PAIRS_OF_BF16):
        while row + 8 <= rows:
            _multiply_8(kind, weights, 0, across, x + row * x_stride, x_stride, out + row * stride, stride)
            row += 8
    while row + 4 <= rows:
        _multiply_4(kind, weights, 0, across, x + row * x_stride, x_stride, out + row * stride, stride)
        row += 4
    if row + 2 <= rows:
        _multiply_2(kind, weights, 0, across, x + row * x_stride, x_stride, out + row * stride, stride)
        row += 2
    if row < rows:
        _multiply_1(kind, weights, 0, across, x + row * x_stride, x_stride, out + row * stride, stride)


@compiled()
def multiply_blocks(
    kind: int,
    weights: int,
    apart: int,
    blocks: int,
    across: int,
    x: int,
    x_stride: int,
    rows: int,
    out: int,
    stride: int,
) -> None:
    """Writes the outputs of several stretches of tiles, `apart` bytes from one to the next; kind is F32 or BF16."""
    block = 0
    while rows == 1 and block + 2 <= blocks:
        _multiply_1_by_2(kind, weights + block * apart, apart, across, x, 0, out + block * 4 * TILE, 0)
        block += 2
    while block < blocks:
        multiply_block(kind, weights + block * apart, across, x, x_stride, rows, out + block * 4 * TILE, stride)
        block += 1


@compiled(parallel=True)
def _multiply_all(
    kind: int,
    weights: int,
    blocks: int,
    across: int,
    x: int,
    x_stride: int,
    rows: int,
    out_MN: NDArray[np.float32],
    scales_N: NDArray[np.float32],
    biases_N: NDArray[np.float32],
    sums_MN: NDArray[np.float32],
    adds: int,
) -> None:
    out, stride, bytes_across = out_MN.ctypes.data, out_MN.shape[1] * 4, across * tile_bytes(kind)
    for block in numba.prange(blocks):
        begin = block * TILE
        multiply_block(kind, weights + block * bytes_across, across, x, x_stride, rows, out + begin * 4, stride)
        for row in range(rows):
            for n in range(begin, begin + TILE):
                value = out_MN[row, n] * scales_N[n] + biases_N[n]
                if adds:
                    sums_MN[row, n] += value
                else:
                    out_MN[row, n] = value


@compiled()
def multiply(
    matrix: Any,
    vectors: NDArray[np.float32],
    x_MK: NDArray[np.float32],
    narrow: NDArray[np.uint8],
    rows: int,
    out_MN: NDArray[np.float32],
    sums_MN: NDArray[np.float32],
) -> None:
    """Multiplies the first rows of x with a matrix: into `out_MN`, or added to `sums_MN` where the matrix does that.

    Args:
        matrix: A record of `plan.MATRIX`.
        vectors: All vectors of the model, in which the record names scales and biases.
        x_MK: Inputs, zero beyond the matrix's columns up to whole tiles.
        narrow: Scratch for inputs of fewer bits, `[M, bytes]`.
        rows: How many rows.
        out_MN: Outputs, or scratch of that size.
        sums_MN: The residual stream, to which some matrices add.
    """
    width = matrix.blocks * TILE
    kind, x, x_stride = matrix.kind, x_MK.ctypes.data, x_MK.shape[1] * 4
    if (_BYTES and kind >= INT8) or (_PAIRS and kind == BF16):
        if rows < FEW_ROWS:
            for row in range(rows):
                _narrow_row(kind, x_MK[row], narrow[row], matrix.across)
        else:
            _narrow_rows(kind, x_MK, narrow, matrix.across, rows)
        x, x_stride = narrow.ctypes.data, narrow.shape[1]
        if kind == BF16:
            kind = PAIRS_OF_BF16
    _multiply_all(
        kind,
        matrix.address,
        matrix.blocks,
        matrix.across,
        x,
        x_stride,
        rows,
        out_MN,
        vectors[matrix.scales : matrix.scales + width],
        vectors[matrix.biases : matrix.biases + width],
        sums_MN,
        matrix.adds,
    )


@compiled(parallel=True)
def _narrow_rows(kind: int, x_MK: NDArray[np.float32], narrow: NDArray[np.uint8], across: int, rows: int) -> None:
    for row in numba.prange(rows):
        _narrow_row(kind, x_MK[row], narrow[row], across)


@compiled()
def _narrow_row(kind: int, x_K: NDArray[np.float32], narrow: NDArray[np.uint8], across: int) -> None:
    if kind == BF16:
        bits, halves = x_K.view(np.uint32), narrow.view(np.uint16)
        for k in range(across * TILE):
            halves[k] = to_bfloat16(bits[k])
    else:
        _quantise_row(x_K, narrow, across, 128 if kind == INT8 else 8)


@compiled()
def _quantise_row(x_K: NDArray[np.float32], groups: NDArray[np.uint8], across: int, excess: int) -> None:
    """Writes the groups of one row of inputs: 32 int8 from -127 to 127, their scale, and -excess times their sum.

    The excess is what the weights are too large by when they are taken as unsigned: int8 by 128, nibbles by 8.
    """
    scales, offsets = groups.view(np.float32), groups.view(np.int32)
    for tile in range(across):
        at, begin = tile * GROUP_BYTES, tile * TILE
        largest, poison = np.float32(0), np.float32(0)
        for column in range(TILE):
            largest = max(largest, abs(x_K[begin + column]))  # passes over NaN
            poison += x_K[begin + column] * np.float32(0)  # NaN where a number is not finite, or it would be lost
        scale = largest / np.float32(127) + poison
        inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
        total = np.int32(0)
        for column in range(TILE):
            value = np.int32(np.rint(x_K[begin + column] * inverse))
            groups[at + column] = np.uint8(np.int8(value))
            total += value
        scales[at // 4 + 8] = scale
        offsets[at // 4 + 9] = -np.int32(excess) * total
