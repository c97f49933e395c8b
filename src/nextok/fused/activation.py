"""The feed-forward activations and their gradients. Axes: N rows, F width; a gated one reads gate and value, 2 F."""

from typing import Any

import numba
import numpy as np

from nextok.jit import compiled
from nextok.jit.bfloat import narrow, wide
from nextok.jit.elementary import erf, exp, sigmoid

GELU_TANH, GELU, RELU, RELU2, SWIGLU = range(5)
KINDS = {"gelu_tanh": GELU_TANH, "gelu": GELU, "relu": RELU, "relu2": RELU2, "swiglu": SWIGLU}

_ONE, _TWO, _NOTHING, _HALF = np.float32(1), np.float32(2), np.float32(0), np.float32(0.5)
_ROOT = np.float32(1.5957691216057308)  # 2 sqrt(2 / pi)
_CUBE = np.float32(0.044715)
_SQRT_HALF = np.float32(0.7071067811865476)
_DENSITY = np.float32(0.3989422804014327)  # 1 / sqrt(2 pi)


@compiled(parallel=True)
def activate(pre_NM: Any, kind: Any, post_NF: Any) -> None:
    """Writes the activation of each row."""
    N, F = post_NF.shape
    for n in numba.prange(N):
        if kind == RELU2:
            for f in range(F):
                x = max(wide(pre_NM[n, f]), _NOTHING)
                post_NF[n, f] = narrow(x * x, post_NF)
        elif kind == SWIGLU:
            for f in range(F):
                gate = wide(pre_NM[n, f])
                post_NF[n, f] = narrow(gate * sigmoid(gate) * wide(pre_NM[n, F + f]), post_NF)
        elif kind == GELU_TANH:
            for f in range(F):
                x = wide(pre_NM[n, f])
                post_NF[n, f] = narrow(x * sigmoid(_ROOT * (x + _CUBE * x * x * x)), post_NF)
        elif kind == GELU:
            for f in range(F):
                x = wide(pre_NM[n, f])
                post_NF[n, f] = narrow(_HALF * x * (_ONE + erf(x * _SQRT_HALF)), post_NF)
        else:
            for f in range(F):
                post_NF[n, f] = narrow(max(wide(pre_NM[n, f]), _NOTHING), post_NF)


@compiled(parallel=True)
def activate_backward(d_post_NF: Any, pre_NM: Any, kind: Any, d_pre_NM: Any) -> None:
    """Writes the gradient before the activation."""
    N, F = d_post_NF.shape
    for n in numba.prange(N):
        if kind == RELU2:
            for f in range(F):
                d_pre_NM[n, f] = narrow(_TWO * max(wide(pre_NM[n, f]), _NOTHING) * wide(d_post_NF[n, f]), d_pre_NM)
        elif kind == SWIGLU:
            for f in range(F):
                gate, gradient = wide(pre_NM[n, f]), wide(d_post_NF[n, f])
                share = sigmoid(gate)
                slope = share * (_ONE + gate * (_ONE - share))
                d_pre_NM[n, f] = narrow(gradient * wide(pre_NM[n, F + f]) * slope, d_pre_NM)
                d_pre_NM[n, F + f] = narrow(gradient * gate * share, d_pre_NM)
        elif kind == GELU_TANH:
            for f in range(F):
                x = wide(pre_NM[n, f])
                share = sigmoid(_ROOT * (x + _CUBE * x * x * x))
                bend = _ROOT * (_ONE + np.float32(3) * _CUBE * x * x)
                d_pre_NM[n, f] = narrow(wide(d_post_NF[n, f]) * share * (_ONE + x * (_ONE - share) * bend), d_pre_NM)
        elif kind == GELU:
            for f in range(F):
                x = wide(pre_NM[n, f])
                below = _HALF * (_ONE + erf(x * _SQRT_HALF))
                d_pre_NM[n, f] = narrow(wide(d_post_NF[n, f]) * (below + x * _DENSITY * exp(-_HALF * x * x)), d_pre_NM)
        else:
            for f in range(F):
                d_pre_NM[n, f] = narrow(wide(d_post_NF[n, f]) if wide(pre_NM[n, f]) > _NOTHING else _NOTHING, d_pre_NM)
