"""The operations by hand values, and their derivatives by measured slopes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.reference.ops import (
    ACTIVATIONS,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    softmax,
    softmax_backward,
)

INF = math.inf
ROWS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6).map(np.array)


# --- softmax


def test_softmax_by_hand() -> None:
    np.testing.assert_allclose(softmax(np.array([0.0, math.log(3)])), [0.25, 0.75])
    np.testing.assert_allclose(softmax(np.array([0.0, math.log(3), -INF])), [0.25, 0.75, 0])


@given(ROWS, st.floats(-1e3, 1e3))
def test_softmax_is_a_distribution_that_a_shift_does_not_move(row: np.ndarray, shift: float) -> None:
    assert softmax(row).sum() == pytest.approx(1)
    assert (softmax(row) >= 0).all()
    np.testing.assert_allclose(softmax(row + shift), softmax(row), atol=1e-12)


def test_scores_too_large_for_exp_are_no_trouble() -> None:
    np.testing.assert_allclose(softmax(np.array([1e4, 1e4 + math.log(3)])), [0.25, 0.75], rtol=1e-10)


def test_a_row_that_may_look_nowhere_gives_zeros_and_passes_no_gradient() -> None:
    scores = np.array([[0.0, 0.0], [-INF, -INF]])
    np.testing.assert_array_equal(softmax(scores), [[0.5, 0.5], [0, 0]])
    np.testing.assert_array_equal(softmax_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), softmax(scores))[1], [0, 0])


def test_with_a_large_number_as_mask_such_a_row_would_look_everywhere() -> None:
    np.testing.assert_array_equal(softmax(np.full(2, -1e9)), [0.5, 0.5])


def test_the_slope_of_softmax(slope) -> None:
    rng = np.random.default_rng(0)
    scores, d_out, direction = rng.normal(size=(3, 2, 5))
    scores[0, 3] = -INF
    measured = slope(lambda x: (softmax(x) * d_out).sum(), scores, direction)
    derived = (softmax_backward(d_out, softmax(scores)) * direction).sum()
    assert derived == pytest.approx(measured, rel=1e-8)


def test_log_softmax_stays_finite_where_softmax_has_become_zero() -> None:
    row = np.array([0.0, -1000.0])
    assert softmax(row)[1] == 0
    np.testing.assert_array_equal(log_softmax(row), [0, -1000])


@given(ROWS)
def test_log_softmax_is_the_log_of_softmax(row: np.ndarray) -> None:
    np.testing.assert_allclose(np.exp(log_softmax(row)), softmax(row), atol=1e-12)


# --- LayerNorm


@pytest.mark.parametrize(
    ("row", "eps_outside", "first"),
    [
        ([1, 0, 0, 0], False, 1.7320),  # the unbiased variance gives 1.5
        ([1, 0, 0, 0], True, 1.7320),
        ([1e-3, 0, 0, 0], False, 0.2350),
        ([1e-3, 0, 0, 0], True, 1.6930),
    ],
)
def test_the_variance_is_biased_and_eps_stands_where_it_was_said_to(
    row: list[float], eps_outside: bool, first: float
) -> None:
    normed = layer_norm(np.array(row, dtype=float), np.ones(4), 0.0, 1e-5, eps_outside=eps_outside)
    assert normed[0] == pytest.approx(first, abs=5e-5)


def test_weight_and_bias_act_on_what_was_normalised() -> None:
    x, weight, bias = np.array([[-1.0, 1.0]]), np.array([2.0, 3.0]), np.array([10.0, 20.0])
    np.testing.assert_allclose(layer_norm(x, weight, bias, 1e-12), [[8, 23]])


@pytest.mark.parametrize("eps_outside", [False, True])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_the_slopes_of_layer_norm(slope, eps_outside: bool, eps: float) -> None:
    rng = np.random.default_rng(1)
    x, d_out, along_x = rng.normal(size=(3, 2, 3, 5))
    weight, bias, along = rng.normal(size=(3, 5))

    def total(x=x, weight=weight, bias=bias) -> float:
        return (layer_norm(x, weight, bias, eps, eps_outside=eps_outside) * d_out).sum()

    d_x, d_weight, d_bias = layer_norm_backward(d_out, x, weight, eps, eps_outside=eps_outside)
    assert (d_x * along_x).sum() == pytest.approx(slope(lambda it: total(x=it), x, along_x), rel=1e-7)
    assert d_weight @ along == pytest.approx(slope(lambda it: total(weight=it), weight, along), rel=1e-7)
    assert d_bias @ along == pytest.approx(slope(lambda it: total(bias=it), bias, along), rel=1e-7)


@pytest.mark.parametrize("eps_outside", [False, True])
def test_a_row_of_equal_values_has_a_slope_too(eps_outside: bool) -> None:
    d_out = np.array([[1.0, 2.0, 6.0]])
    d_x, _, _ = layer_norm_backward(d_out, np.full((1, 3), 7.0), np.ones(3), 0.25, eps_outside=eps_outside)
    scale = 0.25 if eps_outside else math.sqrt(0.25)
    np.testing.assert_allclose(d_x, (d_out - d_out.mean()) / scale)


# --- activations


@pytest.mark.parametrize(
    ("name", "at_minus_1", "at_2"),
    [
        ("gelu", -0.1586552539, 1.9544997361),
        ("gelu_tanh", -0.1588079972, 1.9545976640),
        ("relu", 0, 2),
        ("relu2", 0, 4),
    ],
)
def test_activations_by_hand(name: str, at_minus_1: float, at_2: float) -> None:
    activation, _ = ACTIVATIONS[name]
    np.testing.assert_allclose(activation(np.array([-1.0, 0.0, 2.0])), [at_minus_1, 0, at_2], atol=2e-10)


def test_the_two_gelus_are_close_and_not_the_same() -> None:
    x = np.linspace(-5, 5, 1001)
    apart = np.abs(ACTIVATIONS["gelu"][0](x) - ACTIVATIONS["gelu_tanh"][0](x)).max()
    assert 4e-4 < apart < 5e-4


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_slopes_of_activations(slope, name: str) -> None:
    activation, derived = ACTIVATIONS[name]
    x = np.linspace(-4, 4, 40)  # 0, where ReLU has a corner, is not among them
    np.testing.assert_allclose(
        derived(x), [slope(lambda at: activation(at)[0], x[i : i + 1], np.ones(1)) for i in range(40)], atol=1e-9
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_keep_the_precision_they_are_given(name: str, dtype: type) -> None:
    x = np.array([[-1.0, 2.0]], dtype=dtype)
    assert [part(x).dtype for part in ACTIVATIONS[name]] == [dtype, dtype]
