"""The inner loop of everything: 32 outputs of a few rows at once, one tile of 32 x 32 weights after another.

Weights lie as a stream of tiles: for 32 output rows, the tiles of all columns, then the next 32 rows. Within a tile
the 32 outputs lie side by side, two registers of sixteen, so that one input is multiplied into all of them and no sum
runs across lanes. A row's sum is the same chain of additions whether it is computed alone or beside others: batches,
chunks and single steps agree to the last bit.

| format | a tile | bytes | a row of inputs |
|---|---|---|---|
| `F32` | `[32 columns][32 outputs]` float32 | 4,096 | float32 |
| `BF16` | `[16 pairs][32][2]` bfloat16 | 2,048 | float32, or bfloat16 (below) |
| `INT8` | `[8 fours][32][4]` int8 | 1,024 | float32, or groups (below) |
| `INT4` | `[4 eights][32][4]` bytes, then 32 bfloat16 scales | 576 | same |

A byte of int4 holds two columns of its eight, each plus 8: one of the first four in the low half, the one four after it
in the high half.

Where the machine multiplies bytes (VNNI), inputs of quantised weights are groups: 32 int8, a float32 scale and the
int32 that takes the weights' offset back. Where it multiplies pairs of bfloat16, so are the inputs of such weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nextok.engine.lanes import BYTES, FLOATS, HALVES, INTS, LANES, PAIRS, Lanes, ints, words

TILE = 32
"""Outputs and columns of a tile, and columns of a group."""
F32, BF16, INT8, INT4 = range(4)
"""Formats of weights."""
PAIRS_OF_BF16 = 4
"""The format BF16 against inputs of bfloat16."""
TILE_BYTES = {F32: 4096, BF16: 2048, INT8: 1024, INT4: 576, PAIRS_OF_BF16: 2048}
"""By format."""
GROUP_BYTES = 40
"""A group of quantised inputs: 32 int8, scale, offset."""
NARROW_BYTES = 2 * TILE
"""The most that narrowed inputs of a tile's columns take."""
INT4_SCALES = 512
"""Where the scales of a tile of int4 begin, in bytes."""
_SCALE, _OFFSET = 32, 36
_REGISTER_BYTES = 4 * LANES
_REGISTERS = TILE // LANES
_BLOCK_BYTES = 4 * TILE
_UNROLL = 8

Sums = list[ir.Value]
"""Two registers of sums for each row of inputs: row 0 first half, row 0 second half, row 1 first half, ..."""
Writer = Callable[[Lanes, Sequence[ir.Value], ir.Value, Sums], Sums]
"""(lanes, address of each row's inputs, address of the weights, sums so far) -> sums after one step"""


@dataclass(frozen=True, slots=True)
class Format:
    """How one format is multiplied."""

    step: Writer
    """Writes the instructions of one step."""
    steps: int
    """Steps in a tile."""
    tile_bytes: int
    """Bytes of a tile of weights."""
    input_bytes: int
    """Bytes of a row's inputs for the columns of a tile."""


def make_multiplier(rows: int, formats: Mapping[int, Format], *, blocks: int = 1) -> Any:
    """Returns an intrinsic that writes 32 outputs a block of `rows` rows of inputs as float32, for any of the formats.

    Its arguments: the format, address of the first tile, bytes from one block's tiles to the next block's, number of
    tiles, address of the first row's inputs and bytes from one row to the next, address of the first row's outputs and
    bytes from one row to the next. The outputs of the blocks lie side by side.
    """

    @intrinsic
    def multiplier(typing_context, kind, weights, apart, tiles, x, x_stride, out, out_stride):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        signature = types.void(*[types.intp] * 8)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[ir.Value]) -> ir.Value:
            kind, *addresses = arguments
            after = builder.append_basic_block()
            unknown = builder.append_basic_block()
            choice = builder.switch(kind, unknown)
            for number, form in formats.items():
                case = builder.append_basic_block()
                choice.add_case(words(number), case)
                builder.position_at_end(case)
                _write_rows(Lanes(builder), rows, blocks, form, addresses)
                builder.branch(after)
            builder.position_at_end(unknown)
            builder.unreachable()
            builder.position_at_end(after)
            return context.get_dummy_value()

        return signature, generate

    return multiplier


def _write_rows(lanes: Lanes, rows: int, blocks: int, form: Format, addresses: Sequence[ir.Value]) -> None:
    builder = lanes.builder
    weights, apart, tiles, x, x_stride, out, out_stride = addresses
    starts = [builder.add(weights, builder.mul(apart, words(block))) for block in range(blocks)]
    inputs = [builder.add(x, builder.mul(x_stride, words(row))) for row in range(rows)]
    outputs = [builder.add(out, builder.mul(out_stride, words(row))) for row in range(rows)]
    a_block = _REGISTERS * rows

    def turn(number: ir.Value, sums: Sums) -> Sums:
        passed = builder.mul(number, words(form.tile_bytes // form.steps))
        moved = builder.mul(number, words(form.input_bytes // form.steps))
        here = [builder.add(row, moved) for row in inputs]
        added: Sums = []
        for block, start in enumerate(starts):
            so_far = sums[block * a_block : (block + 1) * a_block]
            added += form.step(lanes, here, builder.add(start, passed), so_far)
        return added

    zeros = [ir.Constant(FLOATS, [0.0] * LANES)] * (a_block * blocks)
    sums = lanes.loop(builder.mul(tiles, words(form.steps)), zeros, turn)
    for number, total in enumerate(sums):
        block, rest = divmod(number, a_block)
        row, half = divmod(rest, _REGISTERS)
        lanes.store(total, outputs[row], block * _BLOCK_BYTES + half * _REGISTER_BYTES)


def _f32_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """Eight columns of float32."""
    for column in range(_UNROLL):
        halves = [lanes.load(FLOATS, weights, column * 128 + half * 64) for half in range(_REGISTERS)]
        sums = _add_column(lanes, halves, inputs, column, sums)
    return sums


def _bf16_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """Eight columns of bfloat16, which is the upper half of a float32: the lower column of a pair moves up."""
    builder = lanes.builder
    for pair in range(_UNROLL // 2):
        both = [lanes.load(INTS, weights, pair * 128 + half * 64) for half in range(_REGISTERS)]
        even = [builder.bitcast(builder.shl(each, ints(16)), FLOATS) for each in both]
        odd = [builder.bitcast(builder.and_(each, ints(-65536)), FLOATS) for each in both]
        sums = _add_column(lanes, even, inputs, 2 * pair, sums)
        sums = _add_column(lanes, odd, inputs, 2 * pair + 1, sums)
    return sums


def _pairs_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """Eight columns of bfloat16, two at a time, against inputs of bfloat16."""
    for pair in range(_UNROLL // 2):
        halves = [lanes.load(PAIRS, weights, pair * 128 + half * 64) for half in range(_REGISTERS)]
        added: Sums = []
        for row, address in enumerate(inputs):
            x = lanes.builder.bitcast(lanes.splat(INTS, address, 4 * pair), PAIRS)
            row_sums = sums[row * _REGISTERS : (row + 1) * _REGISTERS]
            added += [lanes.pair_dots(half, x, total) for half, total in zip(halves, row_sums, strict=True)]
        sums = added
    return sums


def _int8_float_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """Eight columns of int8, each widened to float32."""
    builder = lanes.builder
    for four in range(_UNROLL // 4):
        packed = [lanes.load(INTS, weights, four * 128 + half * 64) for half in range(_REGISTERS)]
        for byte in range(4):
            raised = [builder.shl(each, ints(24 - 8 * byte)) for each in packed]
            column = [builder.sitofp(builder.ashr(each, ints(24)), FLOATS) for each in raised]
            sums = _add_column(lanes, column, inputs, 4 * four + byte, sums)
    return sums


def _int4_float_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """A whole tile of int4: the sums of its 32 columns, then their scales."""
    builder = lanes.builder
    parts: Sums = [ir.Constant(FLOATS, [0.0] * LANES)] * len(sums)
    for quarter in range(4):
        packed = [lanes.load(INTS, weights, quarter * 128 + half * 64) for half in range(_REGISTERS)]
        for nibble in range(2):
            for byte in range(4):
                shifted = [builder.lshr(each, ints(8 * byte + 4 * nibble)) for each in packed]
                whole = [builder.sub(builder.and_(each, ints(15)), ints(8)) for each in shifted]
                column = [builder.sitofp(each, FLOATS) for each in whole]
                parts = _add_column(lanes, column, inputs, 8 * quarter + 4 * nibble + byte, parts)
    scales = _int4_scales(lanes, weights)
    return [
        lanes.multiply_add(part, scales[number % _REGISTERS], total)
        for number, (part, total) in enumerate(zip(parts, sums, strict=True))
    ]


def _int8_bytes_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """A whole tile of int8 against groups: whole numbers until the group's scale."""
    flip = ir.Constant(BYTES, [128] * 4 * LANES)  # as unsigned bytes they are 128 more, which the offset takes back
    steps = [
        [lanes.builder.xor(lanes.load(BYTES, weights, four * 128 + half * 64), flip) for half in range(_REGISTERS)]
        for four in range(8)
    ]
    return _add_group(lanes, steps, inputs, sums, scales=None)


def _int4_bytes_step(lanes: Lanes, inputs: Sequence[ir.Value], weights: ir.Value, sums: Sums) -> Sums:
    """A whole tile of int4 against groups."""
    builder = lanes.builder
    low, shift = ir.Constant(BYTES, [15] * 4 * LANES), ir.Constant(BYTES, [4] * 4 * LANES)
    steps = []
    for quarter in range(4):
        packed = [lanes.load(BYTES, weights, quarter * 128 + half * 64) for half in range(_REGISTERS)]
        steps.append([builder.and_(each, low) for each in packed])
        steps.append([builder.lshr(each, shift) for each in packed])
    return _add_group(lanes, steps, inputs, sums, scales=_int4_scales(lanes, weights))


def _add_column(lanes: Lanes, column: Sequence[ir.Value], inputs: Sequence[ir.Value], number: int, sums: Sums) -> Sums:
    """Adds one column of the tile, times each row's input, to the row's sums."""
    added: Sums = []
    for row, address in enumerate(inputs):
        x = lanes.splat(FLOATS, address, 4 * number)
        halves = sums[row * _REGISTERS : (row + 1) * _REGISTERS]
        added += [lanes.multiply_add(half, x, total) for half, total in zip(column, halves, strict=True)]
    return added


def _add_group(
    lanes: Lanes,
    steps: Sequence[Sequence[ir.Value]],
    inputs: Sequence[ir.Value],
    sums: Sums,
    scales: Sequence[ir.Value] | None,
) -> Sums:
    """Adds a tile of unsigned bytes, four columns a step, times each row's group of signed bytes."""
    builder = lanes.builder
    added: Sums = []
    for row, address in enumerate(inputs):
        whole = [lanes.splat(INTS, address, _OFFSET)] * _REGISTERS
        for number, step in enumerate(steps):
            four = builder.bitcast(lanes.splat(INTS, address, 4 * number), BYTES)
            whole = [lanes.byte_dots(weights, four, total) for weights, total in zip(step, whole, strict=True)]
        x_scale = lanes.splat(FLOATS, address, _SCALE)
        for half in range(_REGISTERS):
            scale = x_scale if scales is None else builder.fmul(scales[half], x_scale)
            part = builder.sitofp(whole[half], FLOATS)
            added.append(lanes.multiply_add(part, scale, sums[row * _REGISTERS + half]))
    return added


def _int4_scales(lanes: Lanes, weights: ir.Value) -> list[ir.Value]:
    builder = lanes.builder
    halves = [lanes.load(HALVES, weights, INT4_SCALES + half * 32) for half in range(_REGISTERS)]
    return [builder.bitcast(builder.shl(builder.zext(half, INTS), ints(16)), FLOATS) for half in halves]


FLOAT_FORMATS = {
    F32: Format(_f32_step, TILE // _UNROLL, TILE_BYTES[F32], 4 * TILE),
    BF16: Format(_bf16_step, TILE // _UNROLL, TILE_BYTES[BF16], 4 * TILE),
}
WIDENED_FORMATS = {
    INT8: Format(_int8_float_step, TILE // _UNROLL, TILE_BYTES[INT8], 4 * TILE),
    INT4: Format(_int4_float_step, 1, TILE_BYTES[INT4], 4 * TILE),
}
"""Quantised weights against float32 inputs: any machine."""
BYTE_FORMATS = {
    INT8: Format(_int8_bytes_step, 1, TILE_BYTES[INT8], GROUP_BYTES),
    INT4: Format(_int4_bytes_step, 1, TILE_BYTES[INT4], GROUP_BYTES),
}
"""Quantised weights against groups of int8: machines that multiply bytes."""
PAIR_FORMATS = {PAIRS_OF_BF16: Format(_pairs_step, TILE // _UNROLL, TILE_BYTES[BF16], 2 * TILE)}
"""bfloat16 against bfloat16: machines that multiply such pairs."""
