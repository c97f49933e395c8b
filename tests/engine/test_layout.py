"""Packing and reading back: where numbers lie, how they are rounded, and what quantising costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextok.engine.layout import pack, packed_bytes, padded, tiles_across, unpack
from nextok.engine.tiles import BF16, F32, INT4, INT8

from .test_tiles import laid_out
from .twin import to_bf16

KINDS = [F32, BF16, INT8, INT4]


def packed(kind: int, matrix_NK: NDArray) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    rows, columns = matrix_NK.shape
    arena = np.full(packed_bytes(kind, rows, columns), 0xAA, np.uint8)  # nothing of what was there may stay
    scales_N = np.full(padded(rows), np.nan, np.float32)
    pack(kind, matrix_NK, arena, scales_N)
    return arena, scales_N


def there_and_back(kind: int, matrix_NK: NDArray) -> NDArray[np.float32]:
    return unpack(kind, *packed(kind, matrix_NK), *matrix_NK.shape)


def gaussian(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def row_of(*numbers: float) -> NDArray[np.float32]:
    """Returns a matrix of one row that begins with these numbers."""
    matrix_NK = np.zeros((1, 32), np.float32)
    matrix_NK[0, : len(numbers)] = numbers
    return matrix_NK


def test_widths_are_counted_in_whole_tiles() -> None:
    assert [tiles_across(width) for width in (1, 31, 32, 33, 64)] == [1, 1, 1, 2, 2]
    assert padded(50257) == 50272
    assert [packed_bytes(kind, 33, 64) for kind in KINDS] == [4 * each for each in (4096, 2048, 1024, 576)]


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_lie_across_first_and_each_as_the_table_says(kind: int) -> None:
    whole_NK = np.random.default_rng(0).integers(-7, 8, (64, 96)).astype(np.float32)
    whole_NK[:, ::32] = 7  # the largest of each group: its scale is 1
    if kind == INT8:
        whole_NK[:, 0] = 127
    arena, scales_N = packed(kind, whole_NK)
    tiles = [
        laid_out(kind, whole_NK[row : row + 32, column : column + 32], np.ones(32))
        for row in (0, 32)
        for column in (0, 32, 64)
    ]
    np.testing.assert_array_equal(arena, np.concatenate(tiles))
    np.testing.assert_array_equal(scales_N, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 33), (31, 32), (33, 31), (65, 100)])
def test_odd_sizes_come_back_and_what_pads_them_is_zero(kind: int, shape: tuple[int, int]) -> None:
    matrix_NK = gaussian(*shape)
    arena, scales_N = packed(kind, matrix_NK)
    whole_NK = unpack(kind, arena, scales_N, *(padded(width) for width in shape))
    within = {F32: 0, BF16: 2**-8, INT8: 0.02, INT4: 0.4}[kind] * np.abs(matrix_NK).max()
    np.testing.assert_allclose(whole_NK[: shape[0], : shape[1]], matrix_NK, rtol=0, atol=within)
    assert not whole_NK[shape[0] :].any() and not whole_NK[:, shape[1] :].any()
    assert np.isfinite(scales_N).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_packed_in_several_stretches_is_the_one_packed_at_once(kind: int) -> None:
    matrix_NK = gaussian(130, 40_000)  # 100 rows, in whole tiles 128, are converted at a time
    last = there_and_back(kind, np.ascontiguousarray(matrix_NK[125:]))
    np.testing.assert_array_equal(there_and_back(kind, matrix_NK)[125:], last)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_any_layout_and_floating_type_are_taken(kind: int) -> None:
    matrix_NK = gaussian(40, 70).astype(np.float16)
    expected = there_and_back(kind, matrix_NK.astype(np.float32))
    for same in (matrix_NK, matrix_NK.astype(np.float64), np.asfortranarray(matrix_NK), matrix_NK.T.copy().T):
        np.testing.assert_array_equal(there_and_back(kind, same), expected)


# --- bfloat16


@pytest.mark.parametrize(
    ("bits", "rounded"),
    [
        (0x3F800000, 0x3F80),  # 1
        (0x3F807FFF, 0x3F80),  # just below the middle
        (0x3F808000, 0x3F80),  # a tie, down to even
        (0x3F818000, 0x3F82),  # a tie, up to even
        (0x3F808001, 0x3F81),  # just above the middle
        (0xBF818000, 0xBF82),  # the same below zero
        (0x3FFFFFFF, 0x4000),  # carries into the exponent
        (0x00008001, 0x0001),  # denormal
        (0x80000000, 0x8000),  # minus zero
        (0x7F800000, 0x7F80),  # infinity
        (0x7F7FFFFF, 0x7F80),  # the largest finite number is nearer to infinity
    ],
)
def test_bfloat16_is_the_nearest_and_ties_go_to_even(bits: int, rounded: int) -> None:
    matrix_NK = row_of(np.array(bits, np.uint32).view(np.float32))
    assert packed(BF16, matrix_NK)[0].view(np.uint16)[0] == rounded


def test_not_a_number_stays_so_in_bfloat16() -> None:
    assert np.isnan(there_and_back(BF16, row_of(np.nan, -np.nan))[0, :2]).all()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=32))
@settings(max_examples=50)
def test_bfloat16_rounds_any_number_as_the_definition_does(numbers: list[float]) -> None:
    matrix_NK = row_of(*numbers)
    expected = to_bf16(matrix_NK[:, : len(numbers)])
    np.testing.assert_array_equal(there_and_back(BF16, matrix_NK)[:, : len(numbers)], expected)


# --- int8


def test_int8_has_a_scale_a_row_and_misses_no_weight_by_more_than_half_a_step() -> None:
    matrix_NK = gaussian(70, 200) * np.logspace(-20, 20, 70, dtype=np.float32)[:, None]
    _, scales_N = packed(INT8, matrix_NK)
    np.testing.assert_allclose(scales_N[:70], np.abs(matrix_NK).max(axis=1) / 127, rtol=1e-6)
    missed_NK = np.abs(there_and_back(INT8, matrix_NK) - matrix_NK)
    assert (missed_NK <= scales_N[:70, None] * (0.5 + 1e-4)).all()


def test_int8_keeps_the_largest_weight_of_a_row_on_either_side() -> None:
    arena, scales_N = packed(INT8, np.array([[-2.54, 1.27, 0.01, 0.011, 2.54]], np.float32))
    assert arena.view(np.int8)[[0, 1, 2, 3, 128]].tolist() == [-127, 64, 0, 1, 127]  # 63.5 to even, 0.5 to even
    assert scales_N[0] == pytest.approx(0.02)


# --- int4


def test_nibbles_hold_columns_four_apart() -> None:
    arena, _ = packed(INT4, row_of(*range(-8, 8)))
    steps = [*(arena[:4] & 15), *(arena[:4] >> 4), *(arena[128:132] & 15), *(arena[128:132] >> 4)]
    assert steps == list(range(16))
    assert arena.view(np.uint16)[256] == 0x3F80  # the scale, 1


def test_int4_has_a_bfloat16_scale_for_each_32_weights_of_a_row() -> None:
    matrix_NK = gaussian(40, 128)
    by_group = there_and_back(INT4, matrix_NK).reshape(40, 4, 32)
    levels = [len(np.unique(group)) for row in by_group for group in row]
    assert max(levels) <= 16
    alone = there_and_back(INT4, np.ascontiguousarray(matrix_NK[7:8, 64:96]))
    np.testing.assert_array_equal(by_group[7, 2], alone[0])


@pytest.mark.parametrize("value", [1.0, -1.0, 0.3, -7.0, 1e-20, 1e15])
def test_a_group_of_equal_weights_is_kept_within_the_scales_rounding(value: float) -> None:
    same = np.full((1, 32), value, np.float32)
    for kind, within in ((INT4, 2**-8), (INT8, 1e-6)):
        np.testing.assert_allclose(there_and_back(kind, same), same, rtol=within)


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_stay_zeros(kind: int) -> None:
    assert not there_and_back(kind, np.zeros((40, 70), np.float32)).any()
    matrix_NK = gaussian(3, 64)
    matrix_NK[1] = 0
    matrix_NK[2, :32] = -0.0
    back_NK = there_and_back(kind, matrix_NK)
    assert not back_NK[1].any() and not back_NK[2, :32].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e18])
def test_the_size_of_weights_does_not_matter(kind: int, size: float) -> None:
    matrix_NK = gaussian(33, 64)
    error = np.abs(there_and_back(kind, matrix_NK * np.float32(size)) / np.float32(size) - matrix_NK)
    assert error.max() <= {F32: 1e-6, BF16: 0.02, INT8: 0.02, INT4: 0.5}[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-38, 3e38])
def test_weights_at_the_ends_of_float32_stay_finite_and_no_larger_than_they_are(kind: int, size: float) -> None:
    matrix_NK = (np.random.default_rng(0).uniform(-1, 1, (33, 64)) * size).astype(np.float32)
    back_NK = there_and_back(kind, matrix_NK)
    assert np.isfinite(back_NK).all()
    assert float(np.abs(back_NK).max()) <= 1.3 * float(np.abs(matrix_NK).max()) + 1e-44


def mean_square(rounded: NDArray, exact: NDArray) -> float:
    return float(((rounded - exact) ** 2).mean())


def test_int4_errs_less_than_the_largest_at_7_and_less_than_llama_cpp() -> None:
    quants = pytest.importorskip("gguf").quants
    from gguf import GGMLQuantizationType

    weights_NK = gaussian(256, 512)
    groups = weights_NK.reshape(-1, 32)
    scales = np.abs(groups).max(axis=1, keepdims=True) / 7
    plain = (np.rint(groups / scales) * scales).reshape(weights_NK.shape)
    q4_0 = quants.dequantize(quants.quantize(weights_NK, GGMLQuantizationType.Q4_0), GGMLQuantizationType.Q4_0)
    ours = mean_square(there_and_back(INT4, weights_NK), weights_NK)
    assert 0.69 < ours / mean_square(plain, weights_NK) < 0.72
    assert 0.88 < ours / mean_square(q4_0, weights_NK) < 0.92


def test_int4_never_errs_more_than_the_largest_weight_at_7_or_at_8_steps() -> None:
    random = np.random.default_rng(0)
    weights_NK = (random.standard_t(3, (64, 96)) * np.logspace(-3, 3, 64)[:, None]).astype(np.float32)
    groups = weights_NK.reshape(-1, 32).astype(np.float64)
    extremes = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    ours = ((there_and_back(INT4, weights_NK).reshape(-1, 32) - groups) ** 2).sum(axis=1)
    for reach in (7, -8):
        scales = to_bf16(extremes / reach).astype(np.float64)
        plain = ((np.clip(np.rint(groups / scales), -8, 7) * scales - groups) ** 2).sum(axis=1)
        assert (ours <= plain * (1 + 1e-4)).all()
