"""The few words of vector code: each gives what its one sentence says, number by number."""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nextok.engine.lanes import BYTES, FLOATS, INTS, LANES, PAIRS, Lanes, ints, words
from nextok.engine.target import multiplies_bytes, multiplies_pairs

from .twin import to_bf16

Addresses = list[ir.Value]


def compiled_lanes(write: Callable[[Lanes, Addresses], None], arguments: int) -> Callable[..., None]:
    """Returns a function of addresses and counts whose body these lanes write."""

    @intrinsic
    def body(typing_context, numbers):
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: Sequence[ir.Value]) -> ir.Value:
            write(Lanes(builder), [builder.extract_value(given[0], at) for at in range(arguments)])
            return context.get_dummy_value()

        return types.void(numbers), generate

    @numba.njit
    def call(*numbers):
        body(numbers)

    return call


def test_a_loop_carries_values_and_counts_its_turns() -> None:
    def add_squares(lanes: Lanes, at: Addresses) -> None:
        x, turns, out = at

        def turn(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            here = lanes.builder.add(x, lanes.builder.mul(number, words(4 * LANES)))
            each = lanes.load(FLOATS, here)
            return [lanes.multiply_add(each, each, carried[0]), lanes.builder.add(carried[1], ints(2))]

        total, count = lanes.loop(turns, [ir.Constant(FLOATS, [1.0] * LANES), ints(5)], turn)
        lanes.store(total, out)
        lanes.store(count, out, 4 * LANES)

    call = compiled_lanes(add_squares, 3)
    x = np.arange(3 * LANES, dtype=np.float32).reshape(3, LANES)
    for turns in (1, 2, 3):
        out = np.zeros((2, LANES), np.float32)
        call(x.ctypes.data, turns, out.ctypes.data)
        np.testing.assert_array_equal(out[0], 1 + (x[:turns] ** 2).sum(axis=0))
        np.testing.assert_array_equal(out[1].view(np.int32), 5 + 2 * turns)


def test_addresses_need_not_be_aligned_and_a_splat_is_one_number_in_every_lane() -> None:
    def move(lanes: Lanes, at: Addresses) -> None:
        lanes.store(lanes.splat(FLOATS, at[0], 5), at[1], 3)

    memory, out = np.zeros(16, np.uint8), np.zeros(4 * LANES + 4, np.uint8)
    memory[5:9] = np.array([1.5], np.float32).view(np.uint8)
    compiled_lanes(move, 2)(memory.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out[3:-1].copy().view(np.float32), [1.5] * LANES)
    assert out[:3].tolist() == [0, 0, 0] and out[-1] == 0


def test_a_multiply_add_is_rounded_once() -> None:
    def write(lanes: Lanes, at: Addresses) -> None:
        a, b, total = (lanes.load(FLOATS, each) for each in at[:3])
        lanes.store(lanes.multiply_add(a, b, total), at[3])

    a, total = np.full(LANES, 1 + 2**-12, np.float32), np.full(LANES, -1 - 2**-11, np.float32)
    out = np.zeros(LANES, np.float32)
    compiled_lanes(write, 4)(a.ctypes.data, a.ctypes.data, total.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, 2.0**-24)  # the product rounded first would leave 0


@pytest.mark.skipif(not multiplies_bytes(), reason="needs a machine with AVX-512 VNNI")
def test_products_of_bytes_add_up_in_whole_numbers_without_saturating() -> None:
    def write(lanes: Lanes, at: Addresses) -> None:
        unsigned, signed = (lanes.load(BYTES, each) for each in at[:2])
        lanes.store(lanes.byte_dots(unsigned, signed, lanes.load(INTS, at[2])), at[3])

    random = np.random.default_rng(0)
    unsigned = random.integers(0, 256, (LANES, 4)).astype(np.uint8)
    signed = random.integers(-128, 128, (LANES, 4)).astype(np.int8)
    unsigned[0], signed[0] = 255, -128  # 16-bit sums in between would not hold these
    total, out = np.arange(LANES, dtype=np.int32) - 8, np.zeros(LANES, np.int32)
    compiled_lanes(write, 4)(unsigned.ctypes.data, signed.ctypes.data, total.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, total + (unsigned.astype(int) * signed).sum(axis=1))


@pytest.mark.skipif(not multiplies_pairs(), reason="needs a machine with AVX-512 BF16")
def test_products_of_bfloat16_pairs_add_up_in_float32() -> None:
    def write(lanes: Lanes, at: Addresses) -> None:
        a, b = (lanes.load(PAIRS, each) for each in at[:2])
        lanes.store(lanes.pair_dots(a, b, lanes.load(FLOATS, at[2])), at[3])

    random = np.random.default_rng(0)
    a, b = (to_bf16(random.standard_normal((LANES, 2))) for _ in range(2))
    halves = [np.ascontiguousarray((each.view(np.uint32) >> 16).astype(np.uint16)) for each in (a, b)]
    total, out = random.standard_normal(LANES).astype(np.float32), np.zeros(LANES, np.float32)
    compiled_lanes(write, 4)(*(each.ctypes.data for each in (*halves, total, out)))
    np.testing.assert_allclose(out, total + (a.astype(np.float64) * b).sum(axis=1), rtol=1e-6, atol=1e-7)
