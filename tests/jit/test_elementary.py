"""The elementary functions against float64, over grids that reach past where they are cut off."""

import math
from collections.abc import Callable

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from nextok.jit import elementary

_ERF = np.vectorize(math.erf, otypes=[np.float64])
GRID = np.unique(
    np.concatenate(
        [np.linspace(-100, 100, 400_001), np.linspace(-6, 6, 400_001), [0.0, -0.0], *(10.0 ** np.arange(-38, 3),)]
    ).astype(np.float32)
)
EXACT = GRID.astype(np.float64)


@numba.njit
def _exp(x, out):
    for at in range(len(x)):
        out[at] = elementary.exp(x[at])


@numba.njit
def _sigmoid(x, out):
    for at in range(len(x)):
        out[at] = elementary.sigmoid(x[at])


@numba.njit
def _tanh(x, out):
    for at in range(len(x)):
        out[at] = elementary.tanh(x[at])


@numba.njit
def _erf(x, out):
    for at in range(len(x)):
        out[at] = elementary.erf(x[at])


@numba.njit
def _gelu(x, out):
    for at in range(len(x)):
        out[at] = elementary.gelu(x[at])


@numba.njit
def _gelu_tanh(x, out):
    for at in range(len(x)):
        out[at] = elementary.gelu_tanh(x[at])


def applied(function: Callable[..., None], x: NDArray[np.float32] = GRID) -> NDArray[np.float64]:
    out = np.empty_like(x)
    function(x, out)
    return out.astype(np.float64)


@pytest.mark.parametrize(("reach", "within"), [(20, 1.3e-7), (87.3, 3.2e-7)])
def test_exp_is_right_to_a_few_units_in_the_last_place_between_its_ends(reach: float, within: float) -> None:
    inside = np.abs(EXACT) < reach
    assert np.abs(applied(_exp)[inside] / np.exp(EXACT[inside]) - 1).max() < within


def test_exp_of_what_is_out_of_range_is_tiny_or_huge_and_never_not_a_number() -> None:
    below = applied(_exp, np.array([-87.4, -100, -np.inf], np.float32))
    above = applied(_exp, np.array([88, 1e3, np.inf], np.float32))
    assert (below >= 0).all() and (below < 1.3e-38).all()
    assert (above > 1.6e38).all() and np.isfinite(above).all()


def test_exp_grows_and_is_1_at_0() -> None:
    assert applied(_exp, np.zeros(1, np.float32))[0] == 1
    steps = np.diff(applied(_exp, np.linspace(-80, 80, 2_001, dtype=np.float32)))
    assert (steps > 0).all()


@pytest.mark.parametrize(
    ("function", "exact", "within"),
    [
        (_sigmoid, lambda x: 1 / (1 + np.exp(-x)), 1.2e-7),
        (_tanh, np.tanh, 2e-7),
        (_erf, _ERF, 4e-7),
    ],
    ids=["sigmoid", "tanh", "erf"],
)
def test_bounded_functions_have_a_small_absolute_error(function: Callable, exact: Callable, within: float) -> None:
    assert np.abs(applied(function) - exact(EXACT)).max() < within


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (_gelu, lambda x: x / 2 * (1 + _ERF(x / math.sqrt(2)))),
        (_gelu_tanh, lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
    ids=["erf", "tanh"],
)
def test_gelu_is_right_relative_to_the_size_of_its_input(function: Callable, exact: Callable) -> None:
    error = np.abs(applied(function) - exact(EXACT))
    assert (error <= 2.5e-7 * np.abs(EXACT) + 1e-38).all()


def test_gelu_of_large_numbers_is_the_number_or_nothing() -> None:
    ends = np.array([-1e4, -30, 30, 1e4], np.float32)
    for function in (_gelu, _gelu_tanh):
        np.testing.assert_allclose(applied(function, ends), [0, 0, 30, 1e4], rtol=0, atol=1e-2)


@pytest.mark.parametrize("function", [_erf, _tanh])
def test_odd_functions_are_odd(function: Callable[..., None]) -> None:
    positive = np.linspace(0.01, 5, 1001, dtype=np.float32)
    np.testing.assert_allclose(applied(function, -positive), -applied(function, positive), rtol=0, atol=4e-7)


def test_a_python_call_gives_the_same() -> None:
    assert elementary.exp(np.float32(1)) == applied(_exp, np.ones(1, np.float32))[0]
