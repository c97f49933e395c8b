"""Every way to read the buffer passes over all of it: what it computes says so."""

import numpy as np
import pytest

from nextok.benchmark import MemoryReader
from nextok.engine.layout import unpack
from nextok.engine.tiles import F32, TILE

ROW_OF_TILES = 393_216


@pytest.fixture
def reader() -> MemoryReader:
    """Returns a reader of a megabyte of random whole numbers, whose sums float32 holds exactly."""
    made = MemoryReader(1, buffer_bytes=3 * ROW_OF_TILES)
    made._floats[:] = np.random.default_rng(0).integers(-8, 8, made._floats.size)
    return made


def test_exclusive_or_reads_every_word(reader: MemoryReader) -> None:
    reader.ways["int64 xor"]()
    assert reader._found[0][0] == np.bitwise_xor.reduce(reader._words)


def test_sum_reads_every_number(reader: MemoryReader) -> None:
    reader.ways["float32 sum"]()
    assert reader._found[1][0] == reader._floats.sum(dtype=np.float64)


def test_product_reads_every_tile() -> None:
    reader = MemoryReader(1, buffer_bytes=ROW_OF_TILES)
    reader._floats[:] = np.random.default_rng(0).integers(-8, 8, reader._floats.size)
    matrix_NK = unpack(F32, reader._floats.view(np.uint8), np.ones(TILE, np.float32), TILE, 3072)
    reader.ways["float32 tiles times a vector"]()
    np.testing.assert_array_equal(reader._products_1N[0], matrix_NK.sum(1))


def test_several_threads_share_the_buffer() -> None:
    reader = MemoryReader(2, buffer_bytes=2 * ROW_OF_TILES)
    reader.time("float32 sum", 0.0)
    assert reader._found[1].sum() == reader._floats.size


def test_buffer_is_whole_rows_of_tiles_and_a_quarter_of_free_memory_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MemoryReader(1, buffer_bytes=2 * ROW_OF_TILES + 5).bytes == 2 * ROW_OF_TILES
    monkeypatch.setattr("nextok.machine.available_memory_bytes", lambda: 16 * ROW_OF_TILES)
    assert MemoryReader(1).bytes == 4 * ROW_OF_TILES


def test_time_is_that_of_a_whole_pass(reader: MemoryReader) -> None:
    timing = reader.time("int64 xor", 0.0)
    assert timing.repeats == 3
    assert timing.median_s > 0.0
