"""One tile after another, laid out here number by number as the table in `tiles.py` says, against plain sums."""

from collections.abc import Callable, Mapping

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from nextok.engine.target import multiplies_bytes, multiplies_pairs
from nextok.engine.tiles import (
    BF16,
    BYTE_FORMATS,
    F32,
    FLOAT_FORMATS,
    GROUP_BYTES,
    INT4,
    INT8,
    NARROW_BYTES,
    PAIR_FORMATS,
    PAIRS_OF_BF16,
    TILE,
    TILE_BYTES,
    WIDENED_FORMATS,
    Format,
    make_multiplier,
)

from .twin import to_bf16

TILES = 3
ROWS = 2
NEEDS_BYTES = pytest.mark.skipif(not multiplies_bytes(), reason="needs a machine with AVX-512 VNNI")
NEEDS_PAIRS = pytest.mark.skipif(not multiplies_pairs(), reason="needs a machine with AVX-512 BF16")


def halves(x: NDArray) -> NDArray[np.uint16]:
    return (to_bf16(x).view(np.uint32) >> 16).astype(np.uint16)


def laid_out(kind: int, weights_NK: NDArray, scales_N: NDArray | None = None) -> NDArray[np.uint8]:
    """Returns the bytes of one tile of 32 outputs and 32 columns."""
    tile = np.zeros(TILE_BYTES[kind], np.uint8)
    for n in range(TILE):
        for k in range(TILE):
            if kind == F32:
                tile.view(np.float32)[k * 32 + n] = weights_NK[n, k]
            elif kind in (BF16, PAIRS_OF_BF16):
                tile.view(np.uint16)[k // 2 * 64 + n * 2 + k % 2] = halves(weights_NK[n, k])
            elif kind == INT8:
                tile.view(np.int8)[k // 4 * 128 + n * 4 + k % 4] = weights_NK[n, k]
            else:
                tile[k // 8 * 128 + n * 4 + k % 4] |= (int(weights_NK[n, k]) + 8) << (4 if k % 8 >= 4 else 0)
        if kind == INT4:
            tile.view(np.uint16)[256 + n] = halves(scales_N[n])
    return tile


def grouped(x_K: NDArray[np.int8], scale: float, excess: int) -> NDArray[np.uint8]:
    """Returns the 40 bytes of a group of inputs."""
    group = np.zeros(GROUP_BYTES, np.uint8)
    group.view(np.int8)[:32] = x_K
    group.view(np.float32)[8] = scale
    group.view(np.int32)[9] = -excess * int(x_K.astype(int).sum())
    return group


def multiplier(formats: Mapping[int, Format], rows: int = ROWS) -> Callable[..., None]:
    written = make_multiplier(rows, formats)

    @numba.njit
    def call(kind, weights, tiles, x, x_stride, out, out_stride):
        written(kind, weights, 0, tiles, x, x_stride, out, out_stride)

    return call


@pytest.fixture(scope="module")
def plain() -> Callable[..., None]:
    """Returns the multiplier of any machine, for all four formats."""
    return multiplier({**FLOAT_FORMATS, **WIDENED_FORMATS})


def outputs(call: Callable[..., None], kind: int, tiles: NDArray[np.uint8], x: NDArray) -> NDArray[np.float32]:
    """Returns what the multiplier writes, and checks that it writes nothing else."""
    out = np.full((ROWS, TILE + 8), np.nan, np.float32)
    number = len(tiles) // TILE_BYTES[kind]
    call(kind, tiles.ctypes.data, number, x.ctypes.data, x.strides[0], out.ctypes.data, out.strides[0])
    assert np.isnan(out[:, TILE:]).all()
    return out[:, :TILE]


def random_weights(kind: int) -> tuple[NDArray, NDArray, NDArray[np.float64]]:
    """Returns weights `[tiles, 32, 32]` as the format holds them, scales `[tiles, 32]`, and the numbers they mean."""
    random = np.random.default_rng(kind)
    scales = to_bf16(random.uniform(0.5, 2, (TILES, TILE)))
    if kind == INT8:
        whole = random.integers(-128, 128, (TILES, TILE, TILE))
        whole[0, 0] = -128
        return whole, scales, whole.astype(np.float64)
    if kind == INT4:
        whole = random.integers(-8, 8, (TILES, TILE, TILE))
        return whole, scales, whole * scales[..., None].astype(np.float64)
    weights = random.standard_normal((TILES, TILE, TILE)).astype(np.float32)
    weights = weights if kind == F32 else to_bf16(weights)
    return weights, scales, weights.astype(np.float64)


def stream_of(kind: int, weights: NDArray, scales: NDArray) -> NDArray[np.uint8]:
    return np.concatenate([laid_out(kind, *each) for each in zip(weights, scales, strict=True)])


@pytest.mark.parametrize("kind", [F32, BF16, INT8, INT4])
def test_float32_inputs_meet_every_format(plain: Callable[..., None], kind: int) -> None:
    weights, scales, meant = random_weights(kind)
    x = np.random.default_rng(9).standard_normal((ROWS, TILES * TILE + 1)).astype(np.float32)
    expected = np.einsum("rtk,tnk->rn", x[:, :-1].reshape(ROWS, TILES, TILE).astype(np.float64), meant)
    actual = outputs(plain, kind, stream_of(kind, weights, scales), x)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(meant).max() * TILES * TILE)


@pytest.mark.parametrize("kind", [F32, BF16, INT8, INT4])
def test_one_weight_and_one_input_meet_where_the_table_says(plain: Callable[..., None], kind: int) -> None:
    x = np.zeros((ROWS, TILE), np.float32)
    for n, k in [(0, 0), (31, 31), (5, 1), (16, 4), (15, 7), (17, 8), (2, 27)]:
        weights = np.zeros((TILE, TILE))
        weights[n, k] = 3
        x[:] = 0
        x[1, k] = 2
        expected = np.zeros((ROWS, TILE))
        expected[1, n] = 6 if kind != INT4 else 3
        actual = outputs(plain, kind, laid_out(kind, weights, np.full(TILE, 0.5)), x)
        np.testing.assert_array_equal(actual, expected)


@NEEDS_BYTES
@pytest.mark.parametrize("kind", [INT8, INT4])
def test_groups_meet_quantised_weights_in_whole_numbers(kind: int) -> None:
    weights, scales, meant = random_weights(kind)
    random, excess = np.random.default_rng(9), 128 if kind == INT8 else 8
    whole = random.integers(-127, 128, (ROWS, TILES, TILE)).astype(np.int8)
    whole[0] = 127
    x_scales = random.uniform(0.1, 1, (ROWS, TILES)).astype(np.float32)
    x = np.stack(
        [
            np.concatenate([grouped(*each, excess) for each in zip(whole[row], x_scales[row], strict=True)])
            for row in range(ROWS)
        ]
    )
    expected = np.einsum("rtk,rt,tnk->rn", whole.astype(np.float64), x_scales.astype(np.float64), meant)
    actual = outputs(multiplier(BYTE_FORMATS), kind, stream_of(kind, weights, scales), x)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@NEEDS_PAIRS
def test_bfloat16_inputs_meet_bfloat16_weights() -> None:
    weights, scales, meant = random_weights(BF16)
    x = np.random.default_rng(9).standard_normal((ROWS, TILES * TILE))
    expected = np.einsum("rtk,tnk->rn", to_bf16(x).reshape(ROWS, TILES, TILE).astype(np.float64), meant)
    actual = outputs(multiplier(PAIR_FORMATS), PAIRS_OF_BF16, stream_of(PAIRS_OF_BF16, weights, scales), halves(x))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [F32, BF16, INT8, INT4])
def test_a_row_alone_is_the_row_beside_another_to_the_last_bit(plain: Callable[..., None], kind: int) -> None:
    weights, scales, _ = random_weights(kind)
    x = np.random.default_rng(9).standard_normal((ROWS, TILES * TILE)).astype(np.float32)
    tiles, alone = stream_of(kind, weights, scales), multiplier({kind: {**FLOAT_FORMATS, **WIDENED_FORMATS}[kind]}, 1)
    together = outputs(plain, kind, tiles, x)
    for row in range(ROWS):
        np.testing.assert_array_equal(outputs(alone, kind, tiles, x[row : row + 1])[0], together[row])


@pytest.mark.parametrize("kind", [F32, BF16])
def test_two_blocks_at_once_are_each_alone_to_the_last_bit(plain: Callable[..., None], kind: int) -> None:
    weights, scales, _ = random_weights(kind)
    x = np.random.default_rng(9).standard_normal((ROWS, TILES * TILE)).astype(np.float32)
    tiles = stream_of(kind, weights, scales)
    gap = len(tiles) + 64
    both = np.concatenate([tiles, np.zeros(64, np.uint8), tiles])
    out, pair = np.full((1, 2 * TILE + 8), np.nan, np.float32), make_multiplier(1, FLOAT_FORMATS, blocks=2)

    @numba.njit
    def call(kind, weights, apart, tiles, x, out):
        pair(kind, weights, apart, tiles, x, 0, out, 0)

    call(kind, both.ctypes.data, gap, TILES, x.ctypes.data, out.ctypes.data)
    alone = outputs(plain, kind, tiles, x)[0]
    np.testing.assert_array_equal(out[0], np.concatenate([alone, alone, np.full(8, np.nan, np.float32)]))


def test_what_a_format_says_of_its_bytes_adds_up() -> None:
    for formats in (FLOAT_FORMATS, WIDENED_FORMATS, BYTE_FORMATS, PAIR_FORMATS):
        for kind, form in formats.items():
            assert form.tile_bytes == TILE_BYTES[kind]
            assert form.tile_bytes % form.steps == form.input_bytes % form.steps == 0
            if formats is BYTE_FORMATS or formats is PAIR_FORMATS:
                assert form.input_bytes <= NARROW_BYTES
