"""The attention pattern: softmax of causal scores, with dropout, and its gradient.

Axes: Z pairs of sequence and head of keys, R queries of all the heads that share it, S keys. Query r stands at position
r mod S: the shared heads' queries lie one head after another.
"""

from typing import Any

import numba
import numpy as np

from nextok.fused.rows import kept, row_key
from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide
from nextok.jit.elementary import exp

_ONE, _NOTHING = np.float32(1), np.float32(0)


@compiled(parallel=True)
def pattern(
    scores_ZRS: Any,
    scale: Any,
    key: Any,
    first_row: Any,
    threshold: Any,
    dropped_ZRS: Any,
) -> None:
    """Turns scores into the pattern in place; writes what dropout leaves of it where there is dropout."""
    Z, R, S = scores_ZRS.shape
    keep = _ONE / (_ONE - np.float32(threshold) * np.float32(2.0**-32))
    for z in numba.prange(Z):
        powers_S = np.empty(S, np.float32)
        for r in range(R):
            stop = r % S + 1
            highest = wide(scores_ZRS[z, r, 0])
            for s in range(stop):
                highest = max(highest, wide(scores_ZRS[z, r, s]))
            total = _NOTHING
            for s in range(stop):
                powers_S[s] = exp((wide(scores_ZRS[z, r, s]) - highest) * scale)
            for s in range(stop):
                total += powers_S[s]
            share = _ONE / total
            for s in range(stop):
                scores_ZRS[z, r, s] = narrow(powers_S[s] * share, scores_ZRS)
            for s in range(stop, S):
                scores_ZRS[z, r, s] = narrow(_NOTHING, scores_ZRS)
            if threshold > 0:
                drawn = row_key(key, first_row + np.uint64(z * R + r))
                for s in range(S):
                    dropped_ZRS[z, r, s] = narrow(
                        wide(scores_ZRS[z, r, s]) * kept(drawn, s, threshold) * keep, dropped_ZRS
                    )


@compiled(parallel=True)
def pattern_backward(
    pattern_ZRS: Any,
    scale: Any,
    key: Any,
    first_row: Any,
    threshold: Any,
    d_ZRS: Any,
) -> None:
    """Turns the gradient of what left dropout into that of the scores, in place."""
    Z, R, S = pattern_ZRS.shape
    keep = _ONE / (_ONE - np.float32(threshold) * np.float32(2.0**-32))
    for z in numba.prange(Z):
        for r in range(R):
            stop = r % S + 1
            if threshold > 0:
                drawn = row_key(key, first_row + np.uint64(z * R + r))
                for s in range(stop):
                    d_ZRS[z, r, s] = narrow(wide(d_ZRS[z, r, s]) * kept(drawn, s, threshold) * keep, d_ZRS)
            along = _NOTHING
            for s in range(stop):
                along += wide(pattern_ZRS[z, r, s]) * wide(d_ZRS[z, r, s])
            for s in range(stop):
                d_ZRS[z, r, s] = narrow(scale * wide(pattern_ZRS[z, r, s]) * (wide(d_ZRS[z, r, s]) - along), d_ZRS)
            for s in range(stop, S):
                d_ZRS[z, r, s] = narrow(_NOTHING, d_ZRS)
