"""The operations of a GPT and their derivatives, each as its formula; dtypes follow the inputs, float64 for oracles."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def softmax(scores: Array) -> Array:
    """Returns exp(x) / sum exp(x) over the last axis; a row of -inf alone gives zeros, since it may look nowhere."""
    peak = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1)


def softmax_backward(d_out: Array, out: Array) -> Array:
    """Returns the gradient of the scores: out * (d_out - sum(d_out * out))."""
    return out * (d_out - (d_out * out).sum(axis=-1, keepdims=True))


def log_softmax(logits: Array) -> Array:
    """Returns x - log sum exp(x) over the last axis, which stays finite where log(softmax(x)) would be -inf."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def layer_norm(x: Array, weight: Array, bias: Array | float, eps: float, *, eps_outside: bool = False) -> Array:
    """Returns weight * (x - mean) / sqrt(var + eps) + bias over the last axis; the variance is the biased one.

    With `eps_outside`, the divisor is sqrt(var) + eps, as lesson B prints it.
    """
    normed, _, _ = _normalised(x, eps, eps_outside=eps_outside)
    return weight * normed + bias


def layer_norm_backward(
    d_out: Array, x: Array, weight: Array, eps: float, *, eps_outside: bool = False
) -> tuple[Array, Array, Array]:
    """Returns the gradients of x, of the weight and of the bias, the last two summed over all rows."""
    normed, std, scale = _normalised(x, eps, eps_outside=eps_outside)
    d_normed = d_out * weight
    mean = d_normed.mean(axis=-1, keepdims=True)
    along = (d_normed * normed).mean(axis=-1, keepdims=True)
    # d std / d x is (x - mean) / std / D; of a row of equal values, where std may be 0, nothing goes along normed
    stretch = scale / np.where(std > 0, std, 1)
    d_x = (d_normed - mean - normed * along * stretch) / scale
    rows = tuple(range(x.ndim - 1))
    return d_x, (d_out * normed).sum(axis=rows), d_out.sum(axis=rows)


def _normalised(x: Array, eps: float, *, eps_outside: bool) -> tuple[Array, Array, Array]:
    """Returns the rows normalised, the root of their variance, and what they were divided by: eps is in one of them."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    std = np.sqrt(variance if eps_outside else variance + eps)
    scale = std + eps if eps_outside else std
    return centred / scale, std, scale


# Roots are Python's own floats: NumPy's would turn float32 into float64.
_ROOT_2, _ROOT_2_PI = math.sqrt(2), math.sqrt(2 * math.pi)
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), x.dtype)  # NumPy has none; 0.1 us a number will do


def _gelu(x: Array) -> Array:
    return x * 0.5 * (1 + _erf(x / _ROOT_2))


def _gelu_slope(x: Array) -> Array:
    return 0.5 * (1 + _erf(x / _ROOT_2)) + x * np.exp(-(x**2) / 2) / _ROOT_2_PI


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3)))


def _gelu_tanh_slope(x: Array) -> Array:
    bent = np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3))
    return 0.5 * (1 + bent) + 0.5 * x * (1 - bent**2) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * x**2)


ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "gelu": (_gelu, _gelu_slope),
    "gelu_tanh": (_gelu_tanh, _gelu_tanh_slope),
    "relu": (lambda x: np.maximum(x, 0), lambda x: np.heaviside(x, 0)),
    "relu2": (lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
}
"""Each feed-forward activation with its derivative."""
