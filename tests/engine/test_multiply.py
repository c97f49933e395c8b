"""Rows times packed matrices, against float64 with the inputs rounded as the machine makes the engine round them."""

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from nextok.engine.layout import pack, packed_bytes, padded, tiles_across, unpack
from nextok.engine.multiply import multiply, tile_bytes
from nextok.engine.plan import MATRIX
from nextok.engine.target import multiplies_bytes, multiplies_pairs
from nextok.engine.tiles import BF16, F32, INT4, INT8, NARROW_BYTES, PAIRS_OF_BF16, TILE, TILE_BYTES

from .twin import to_bf16, to_groups

KINDS = [F32, BF16, INT8, INT4]
SHAPES = [(1, 1), (33, 31), (64, 96), (95, 130)]


@numba.njit
def _multiply(matrices, vectors, x_MK, narrow, rows, out_MN, sums_MN):
    multiply(matrices[0], vectors, x_MK, narrow, rows, out_MN, sums_MN)


class Layer:
    """One packed matrix with scales and biases, as the plan would lay it out."""

    def __init__(self, kind: int, rows: int, columns: int, *, adds: bool = False, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.kind, self.rows, self.columns = kind, rows, columns
        arena = np.empty(packed_bytes(kind, rows, columns), np.uint8)
        self.vectors = np.zeros(2 * padded(rows), np.float32)
        scales_N, self.biases_N = self.vectors[: padded(rows)], self.vectors[padded(rows) : padded(rows) + rows]
        self.biases_N[:] = random.standard_normal(rows)
        pack(kind, random.standard_normal((rows, columns)), arena, scales_N)
        self.weights_NK = unpack(kind, arena, scales_N, rows, columns)
        record = (kind, arena.ctypes.data, 0, tiles_across(rows), tiles_across(columns), 0, padded(rows), adds)
        self.arena, self.matrices = arena, np.array([record], MATRIX)

    def __call__(self, x_MK: NDArray, sums_MN: NDArray | None = None) -> NDArray[np.float32]:
        M = len(x_MK)
        whole_MK = np.zeros((M, padded(self.columns)), np.float32)
        whole_MK[:, : self.columns] = x_MK
        narrow = np.full((M, tiles_across(self.columns) * NARROW_BYTES), 0xAA, np.uint8)
        out_MN = np.full((M, padded(self.rows)), np.nan, np.float32)
        sums_MN = np.zeros((M, padded(self.rows)), np.float32) if sums_MN is None else sums_MN
        _multiply(self.matrices, self.vectors, whole_MK, narrow, M, out_MN, sums_MN)
        assert not out_MN[:, self.rows :].any(), "what pads the outputs is zero"
        return out_MN[:, : self.rows]

    def exact(self, x_MK: NDArray[np.float32]) -> NDArray[np.float64]:
        rounded = x_MK
        if self.kind in (INT8, INT4) and multiplies_bytes():
            rounded = to_groups(x_MK)
        if self.kind == BF16 and multiplies_pairs():
            rounded = to_bf16(x_MK)
        return rounded.astype(np.float64) @ self.weights_NK.T.astype(np.float64) + self.biases_N


def inputs(rows: int, columns: int) -> NDArray[np.float32]:
    """Returns rows of very different sizes, the last one nothing."""
    x_MK = np.random.default_rng(5).standard_normal((rows, columns)) * np.logspace(-2, 2, rows)[:, None]
    x_MK[-1, :] = 0 if rows > 1 else x_MK[-1]
    return x_MK.astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9, 15])
def test_outputs_are_inputs_times_weights_plus_biases(kind: int, shape: tuple[int, int], rows: int) -> None:
    layer, x_MK = Layer(kind, *shape), inputs(rows, shape[1])
    size_M = np.abs(x_MK).max(axis=1, keepdims=True) + 1
    assert (np.abs(layer(x_MK) - layer.exact(x_MK)) <= 2e-6 * np.sqrt(shape[1]) * 4 * size_M).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_to_the_last_bit_among_any_number_of_rows(kind: int) -> None:
    layer, x_MK = Layer(kind, 95, 130), inputs(15, 130)
    alone = np.concatenate([layer(x_MK[row : row + 1]) for row in range(15)])
    for rows in range(2, 16):
        np.testing.assert_array_equal(layer(x_MK[:rows]), alone[:rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5])
def test_some_matrices_add_to_the_residual_stream(kind: int, rows: int) -> None:
    x_MK, sums_MN = inputs(rows, 70), np.full((rows, 64), 0.5, np.float32)
    Layer(kind, 33, 70, adds=True)(x_MK, sums_MN)
    np.testing.assert_allclose(sums_MN[:, :33], 0.5 + Layer(kind, 33, 70)(x_MK), atol=1e-5, rtol=1e-6)
    assert (sums_MN[:, 33:] == 0.5).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_gives_the_biases_out(kind: int) -> None:
    layer = Layer(kind, 40, 50)
    np.testing.assert_array_equal(layer(np.zeros((1, 50), np.float32))[0], layer.biases_N)


@pytest.mark.parametrize("kind", [INT8, INT4])
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e30])
def test_quantised_inputs_of_any_size_lose_as_little(kind: int, size: float) -> None:
    layer, x_MK = Layer(kind, 32, 64), inputs(1, 64)
    layer.biases_N[:] = 0
    scaled = layer(x_MK * np.float32(size)) / np.float32(size)
    np.testing.assert_allclose(scaled, layer(x_MK), rtol=1e-4, atol=1e-4 * np.abs(x_MK).max())


@pytest.mark.skipif(not multiplies_bytes(), reason="needs a machine with AVX-512 VNNI")
def test_an_input_far_larger_than_the_rest_costs_its_own_group_alone() -> None:
    layer, x_MK = Layer(INT8, 32, 96), np.ones((1, 96), np.float32)
    x_MK[0, 40] = 1e4
    layer.biases_N[:] = 0
    x_MK[0, 32:40] = x_MK[0, 41:64] = 0  # what becomes of the ones beside it
    expected = layer.weights_NK @ x_MK[0]
    x_MK[0, 32:40] = x_MK[0, 41:64] = 1
    np.testing.assert_allclose(layer(x_MK)[0], expected, rtol=1e-5, atol=2e-2)


def test_bytes_of_a_tile_are_what_the_table_says() -> None:
    assert {kind: tile_bytes(kind) for kind in (*KINDS, PAIRS_OF_BF16)} == TILE_BYTES
    assert TILE == 32
