"""What happens to each row of the residual stream between two matrix products: add, drop out, normalise.

Axes: N rows (positions of all sequences), D width, C blocks of rows. The stream and its gradient are float32; what
goes into a matrix product and comes out of one is bfloat16 or float32. Kernels index whole arrays: a view of a row
costs more than a row of a small model, because Numba counts who holds it.
"""

from typing import Any

import numba
import numpy as np

from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide

BLOCK = 32
"""Rows whose gradients of a weight are summed in order, whatever the number of threads."""

_ONE, _NOTHING = np.float32(1), np.float32(0)


@compiled()
def scramble(x: Any) -> Any:
    """Returns 32 bits that look drawn at random, a function of the 32 given. Source: lowbias32 (Wellons)."""
    x = np.uint32(x)  # again after each product: Numba multiplies to 64 bits
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled()
def row_key(key: Any, row: Any) -> Any:
    """Returns the 32 bits from which one row draws: of the layer's key and the row's number in the whole run."""
    row = np.uint64(row)
    return scramble(
        np.uint32(key) ^ scramble(np.uint32(row)) ^ scramble(np.uint32(row >> np.uint64(32)) + np.uint32(1))
    )


@compiled()
def kept(key: Any, column: Any, threshold: Any) -> Any:
    """Returns 1 where an element stays and 0 where it is dropped, with probability threshold / 2^32."""
    drawn = scramble(np.uint32(np.uint32(key) + np.uint32(np.uint32(column) * np.uint32(0x9E3779B9))))
    return _ONE if drawn >= threshold else _NOTHING


@compiled(parallel=True)
def add_and_norm(
    x_ND: Any,
    delta_ND: Any,
    weight_D: Any,
    bias_D: Any,
    centred: bool,  # noqa: FBT001 - compiled code takes no keywords
    eps: Any,
    key: Any,
    first_row: Any,
    threshold: Any,
    sum_ND: Any,
    out_ND: Any,
    mean_N: Any,
    inverse_N: Any,
) -> None:
    """Writes x + delta, and its norm: LayerNorm where centred, else RMSNorm; what is dropped of delta adds nothing.

    An empty x is zero, an empty bias too.
    """
    N, D = sum_ND.shape
    scale = _ONE / (_ONE - np.float32(threshold) * np.float32(2.0**-32))
    for n in numba.prange(N):
        if threshold > 0:
            drawn = row_key(key, first_row + np.uint64(n))
            for d in range(D):
                sum_ND[n, d] = wide(delta_ND[n, d]) * kept(drawn, d, threshold) * scale
        else:
            for d in range(D):
                sum_ND[n, d] = wide(delta_ND[n, d])
        if x_ND.shape[0] > 0:
            for d in range(D):
                sum_ND[n, d] += x_ND[n, d]
        mean = _NOTHING
        if centred:
            for d in range(D):
                mean += sum_ND[n, d]
            mean /= np.float32(D)
        square = _NOTHING
        for d in range(D):
            square += (sum_ND[n, d] - mean) * (sum_ND[n, d] - mean)
        inverse = _ONE / np.sqrt(square / np.float32(D) + eps)
        mean_N[n], inverse_N[n] = mean, inverse
        if bias_D.shape[0] > 0:
            for d in range(D):
                out_ND[n, d] = narrow((sum_ND[n, d] - mean) * inverse * weight_D[d] + bias_D[d], out_ND)
        else:
            for d in range(D):
                out_ND[n, d] = narrow((sum_ND[n, d] - mean) * inverse * weight_D[d], out_ND)


@compiled(parallel=True)
def add_and_norm_backward(
    d_out_ND: Any,
    d_sum_ND: Any,
    sum_ND: Any,
    weight_D: Any,
    mean_N: Any,
    inverse_N: Any,
    centred: bool,  # noqa: FBT001 - as above
    key: Any,
    first_row: Any,
    threshold: Any,
    d_x_ND: Any,
    d_delta_ND: Any,
    d_weight_CD: Any,
    d_bias_CD: Any,
) -> None:
    """Writes the gradients of x and delta, and those of weight and bias summed over blocks of rows.

    An empty `d_sum` is zero: nothing but the norm was used.
    """
    N, D = sum_ND.shape
    scale = _ONE / (_ONE - np.float32(threshold) * np.float32(2.0**-32))
    for block in numba.prange((N + BLOCK - 1) // BLOCK):
        for n in range(block * BLOCK, min(N, (block + 1) * BLOCK)):
            mean, inverse = mean_N[n], inverse_N[n]
            along, level = _NOTHING, _NOTHING
            for d in range(D):
                gradient = wide(d_out_ND[n, d])
                unit = (sum_ND[n, d] - mean) * inverse
                d_weight_CD[block, d] += gradient * unit
                along += gradient * weight_D[d] * unit
            along /= np.float32(D)
            if centred:
                for d in range(D):
                    level += wide(d_out_ND[n, d]) * weight_D[d]
                level /= np.float32(D)
            for d in range(D):
                d_bias_CD[block, d] += wide(d_out_ND[n, d])
            for d in range(D):
                unit = (sum_ND[n, d] - mean) * inverse
                d_x_ND[n, d] = inverse * (wide(d_out_ND[n, d]) * weight_D[d] - level - unit * along)
            if d_sum_ND.shape[0] > 0:
                for d in range(D):
                    d_x_ND[n, d] += d_sum_ND[n, d]
            if threshold > 0:
                drawn = row_key(key, first_row + np.uint64(n))
                for d in range(D):
                    d_delta_ND[n, d] = narrow(d_x_ND[n, d] * kept(drawn, d, threshold) * scale, d_delta_ND)
            else:
                for d in range(D):
                    d_delta_ND[n, d] = narrow(d_x_ND[n, d], d_delta_ND)
