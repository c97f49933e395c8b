"""The cross-entropy of rows of logits, and its gradient in their place. Axes: N rows, V vocabulary."""

from typing import Any

import numba
import numpy as np

from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide
from nextok.jit.elementary import exp, tanh

_BLOCK = 16
_ONE, _NOTHING = np.float32(1), np.float32(0)


@compiled(parallel=True)
def surprise(logits_NV: Any, targets_N: Any, cap: Any, scale: Any, loss_N: Any) -> None:
    """Writes each row's loss in nats, and overwrites the logits with `scale` times its gradient.

    Args:
        logits_NV: Before the soft-cap.
        targets_N: The token that came; below 0: the row does not count, its loss and gradient are 0.
        cap: Logits become cap tanh(logits / cap); 0: they stay.
        scale: What the loss will be multiplied by.
        loss_N: Result, float32, not scaled.
    """
    N, V = logits_NV.shape
    for block in numba.prange((N + _BLOCK - 1) // _BLOCK):
        capped_V, powers_V = np.empty(V, np.float32), np.empty(V, np.float32)
        for n in range(block * _BLOCK, min(N, (block + 1) * _BLOCK)):
            row_V, target = logits_NV[n], targets_N[n]
            if target < 0:
                loss_N[n] = _NOTHING
                for v in range(V):
                    row_V[v] = narrow(_NOTHING, logits_NV)
                continue
            if cap > _NOTHING:
                for v in range(V):
                    capped_V[v] = cap * tanh(wide(row_V[v]) / cap)
            else:
                for v in range(V):
                    capped_V[v] = wide(row_V[v])
            highest = capped_V[0]
            for v in range(V):
                highest = max(highest, capped_V[v])
            for v in range(V):
                powers_V[v] = exp(capped_V[v] - highest)
            total = _NOTHING
            for v in range(V):
                total += powers_V[v]
            loss_N[n] = np.log(total) + highest - capped_V[target]
            share = scale / total
            powers_V[target] -= total
            if cap > _NOTHING:
                for v in range(V):
                    level = capped_V[v] / cap
                    row_V[v] = narrow(powers_V[v] * share * (_ONE - level * level), logits_NV)
            else:
                for v in range(V):
                    row_V[v] = narrow(powers_V[v] * share, logits_NV)
