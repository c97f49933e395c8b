"""Elementary functions in float32 without a branch, so that LLVM computes sixteen at once.

The C library's are called one number at a time, which takes longer than the matrices of a small model. Those here are
within a few units in the last place; tests hold them against float64.
"""

import numpy as np

from nextok.jit.compiling import compiled

_LOG2_E = np.float32(1.4426950408889634)
_LN2 = np.float32(0.6931471805599453)
_SQRT_2_OVER_PI = np.float32(0.7978845608028654)
_SQRT_HALF = np.float32(0.7071067811865476)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)


@compiled()
def exp(x: np.float32) -> np.float32:
    """Returns e^x; 0 below -87.3 and the largest powers of two above 88."""
    x = min(max(x, np.float32(-88.0)), np.float32(88.0))
    power = np.floor(x * _LOG2_E + _HALF)
    rest = x - power * _LN2  # within ln 2 / 2 of zero
    series = np.float32(1.9875691500e-4)  # Cephes' expf
    series = series * rest + np.float32(1.3981999507e-3)
    series = series * rest + np.float32(8.3334519073e-3)
    series = series * rest + np.float32(4.1665795894e-2)
    series = series * rest + np.float32(1.6666665459e-1)
    series = series * rest + np.float32(5.0000001201e-1)
    value = series * rest * rest + rest + _ONE
    return value * np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)


@compiled()
def sigmoid(x: np.float32) -> np.float32:
    """Returns 1 / (1 + e^-x)."""
    return _ONE / (_ONE + exp(-x))


@compiled()
def tanh(x: np.float32) -> np.float32:
    """Returns the hyperbolic tangent; its absolute error is below 2e-7."""
    return _TWO * sigmoid(_TWO * x) - _ONE


@compiled()
def gelu_tanh(x: np.float32) -> np.float32:
    """Returns GPT-2's GELU: x/2 (1 + tanh(y)) is x times the sigmoid of 2y."""
    return x * sigmoid(_TWO * _SQRT_2_OVER_PI * (x + np.float32(0.044715) * x * x * x))


@compiled()
def gelu(x: np.float32) -> np.float32:
    """Returns x times the normal distribution up to x."""
    return _HALF * x * (_ONE + erf(x * _SQRT_HALF))


@compiled()
def erf(x: np.float32) -> np.float32:
    """Returns the error function, as a ratio of polynomials in x^2 (coefficients: Eigen, `generic_fast_erf_float`)."""
    x = min(max(x, np.float32(-4.0)), np.float32(4.0))
    square = x * x
    over = np.float32(-2.72614225801306e-10)
    over = over * square + np.float32(2.77068142495902e-08)
    over = over * square + np.float32(-2.10102402082508e-06)
    over = over * square + np.float32(-5.69250639462346e-05)
    over = over * square + np.float32(-7.34990630326855e-04)
    over = over * square + np.float32(-2.95459980854025e-03)
    over = over * square + np.float32(-1.60960333262415e-02)
    under = np.float32(-1.45660718464996e-05)
    under = under * square + np.float32(-2.13374055278905e-04)
    under = under * square + np.float32(-1.68282697438203e-03)
    under = under * square + np.float32(-7.37332916720468e-03)
    under = under * square + np.float32(-1.42647390514189e-02)
    return x * over / under
