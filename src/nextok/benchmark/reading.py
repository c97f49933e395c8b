"""How fast memory is read: several ways to pass over one buffer far larger than any cache, of which the fastest counts.

Which way is fastest depends on the machine. Decoding reads every weight for every token, so this is its limit.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numba
import numpy as np
from numpy.typing import NDArray

from nextok import machine
from nextok.benchmark.timing import Timing, time_work
from nextok.engine.layout import tiles_across
from nextok.engine.multiply import multiply
from nextok.engine.plan import MATRIX
from nextok.engine.tiles import F32, NARROW_BYTES, TILE, TILE_BYTES
from nextok.jit import compiled

BUFFER_BYTES = 384 << 20
"""Twelve times a last-level cache of 32 MiB, and the size of a model's weights."""
_COLUMNS = 3072  # of the buffer as a matrix: GPT-2's widest input
_ROWS_BYTES = TILE_BYTES[F32] * _COLUMNS // TILE


@compiled(parallel=True)
def _exclusive_or(words: NDArray[np.int64], found: NDArray[np.int64]) -> None:
    """Gives each thread one stretch of the buffer."""
    size = words.shape[0] // found.shape[0]
    for run in numba.prange(found.shape[0]):
        found[run] = _exclusive_or_of(words[run * size : (run + 1) * size])


@compiled()
def _exclusive_or_of(words: NDArray[np.int64]) -> np.int64:
    # A function of its own, with an index of its own: with the unsigned one of the parallel loop, or with Python's
    # `for word in words`, LLVM makes no vectors of the loop and reads a fifth as much.
    total = np.int64(0)
    for i in range(words.shape[0]):
        total ^= words[i]
    return total


@compiled(parallel=True)
def _add(numbers: NDArray[np.float32], found: NDArray[np.float32]) -> None:
    size = numbers.shape[0] // found.shape[0]
    for run in numba.prange(found.shape[0]):
        found[run] = _sum_of(numbers[run * size : (run + 1) * size])


@compiled()
def _sum_of(numbers: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for i in range(numbers.shape[0]):
        total += numbers[i]
    return total


class MemoryReader:
    """A buffer, and the ways to read it.

    Args:
        threads: Cores to read with. Default: those this process may use.
        buffer_bytes: Size of the buffer; a quarter of the memory that is free, where that is less.
    """

    def __init__(self, threads: int | None = None, buffer_bytes: int = BUFFER_BYTES) -> None:
        free = machine.available_memory_bytes()
        wanted = buffer_bytes if free is None else min(buffer_bytes, free // 4)
        blocks = max(1, wanted // _ROWS_BYTES)
        self._threads = min(threads or machine.usable_cores(), numba.config.NUMBA_NUM_THREADS)
        # ones, not zeros: pages never written are all the same page of zeros, which stays in the cache
        self._floats = np.ones(blocks * _ROWS_BYTES // 4, np.float32)
        self._words = self._floats.view(np.int64)
        self._found = np.zeros(self._threads, np.int64), np.zeros(self._threads, np.float32)
        self._products_1N = np.zeros((1, blocks * TILE), np.float32)
        self._product = _product_of(self._floats, self._products_1N)
        self.bytes = self._floats.nbytes

    @property
    def ways(self) -> Mapping[str, Callable[[], object]]:
        """Returns each way to read the whole buffer, by name."""
        words, sums = self._found
        return MappingProxyType(
            {
                "int64 xor": lambda: _exclusive_or(self._words, words),
                "float32 sum": lambda: _add(self._floats, sums),
                "float32 tiles times a vector": self._product,
            }
        )

    def time(self, way: str, seconds: float) -> Timing:
        """Returns how long it takes to read the buffer in this way."""
        numba.set_num_threads(self._threads)
        return time_work(self.ways[way], seconds)


def _product_of(floats: NDArray[np.float32], out_1N: NDArray[np.float32]) -> Callable[[], object]:
    """Returns the engine's own product of the buffer, as a matrix of tiles, and one row of ones."""
    rows = out_1N.shape[1]
    vectors = np.concatenate([np.ones(rows, np.float32), np.zeros(rows, np.float32)])  # scales, biases
    record = np.zeros(1, MATRIX)
    blocks, across = tiles_across(rows), tiles_across(_COLUMNS)
    values = {"kind": F32, "address": floats.ctypes.data, "blocks": blocks, "across": across, "biases": rows}
    for name, value in values.items():
        record[name] = value
    x_1K, narrow = np.ones((1, _COLUMNS), np.float32), np.zeros((1, across * NARROW_BYTES), np.uint8)
    return lambda: multiply(record[0], vectors, x_1K, narrow, 1, out_1N, out_1N)
