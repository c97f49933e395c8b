"""Vector instructions written from Python: the few words in which `tiles.py` spells its inner loops.

Numba compiles loops and leaves it to LLVM which vectors come out; for the two or three loops that all time goes into,
that is not enough. An intrinsic may hand LLVM the vector operations themselves. Sixteen lanes of 32 bits are one
register of AVX-512; on narrower machines LLVM splits each operation, and the results stay the same to the last bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

LANES = 16

BYTE, INT, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
FLOAT = ir.FloatType()
BYTES = ir.VectorType(BYTE, 4 * LANES)
INTS = ir.VectorType(INT, LANES)
HALVES = ir.VectorType(ir.IntType(16), LANES)
FLOATS = ir.VectorType(FLOAT, LANES)


class _BFloat(ir.Type):
    """The upper half of a float32: a type of LLVM that llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"


PAIRS = ir.VectorType(_BFloat(), 2 * LANES)

Body = Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
"""(number of the turn, values carried in) -> values carried on"""


def words(value: int) -> ir.Constant:
    """Returns a 64-bit constant: addresses, strides, counts."""
    return ir.Constant(WORD, value)


def ints(value: int) -> ir.Constant:
    """Returns the same 32-bit integer in every lane."""
    return ir.Constant(INTS, [value] * LANES)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes vector operations at the end of a function that is being built."""

    builder: ir.IRBuilder

    def load(self, kind: ir.Type, address: ir.Value, offset: int = 0) -> ir.Value:
        """Returns what lies `offset` bytes after the address, however aligned."""
        return self.builder.load(self._pointer(kind, address, offset), align=1)

    def store(self, value: ir.Value, address: ir.Value, offset: int = 0) -> None:
        """Writes a value `offset` bytes after the address."""
        self.builder.store(value, self._pointer(value.type, address, offset), align=1)

    def splat(self, kind: ir.Type, address: ir.Value, offset: int = 0) -> ir.Value:
        """Returns one number from memory in every lane of a vector of this kind."""
        number = self.load(kind.element, address, offset)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ints(0))

    def multiply_add(self, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        """Returns a b + total, rounded once."""
        return self._call("llvm.fma.v16f32", FLOATS, [a, b, total])

    def byte_dots(self, unsigned: ir.Value, signed: ir.Value, total: ir.Value) -> ir.Value:
        """Returns total plus, in each lane of 32 bits, the products of its four bytes: VNNI's vpdpbusd."""
        # LLVM declares the operands as vectors of ints until 19 and of bytes since 20; llvmlite's is 20
        return self._call("llvm.x86.avx512.vpdpbusd.512", INTS, [total, unsigned, signed])

    def pair_dots(self, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        """Returns total plus, in each lane of 32 bits, the products of its two bfloat16: vdpbf16ps."""
        return self._call("llvm.x86.avx512bf16.dpbf16ps.512", FLOATS, [total, a, b])

    def loop(self, turns: ir.Value, carried: Sequence[ir.Value], body: Body) -> list[ir.Value]:
        """Runs the body `turns` times, at least once, and returns what it carried out of the last turn."""
        builder = self.builder
        before, inside, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(inside)
        builder.position_at_end(inside)
        turn = builder.phi(WORD)
        turn.add_incoming(words(0), before)
        values = [builder.phi(value.type) for value in carried]
        for value, start in zip(values, carried, strict=True):
            value.add_incoming(start, before)
        results = body(turn, list(values))
        following = builder.add(turn, words(1))
        turn.add_incoming(following, builder.block)
        for value, result in zip(values, results, strict=True):
            value.add_incoming(result, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, turns), inside, after)
        builder.position_at_end(after)
        return results

    def _pointer(self, kind: ir.Type, address: ir.Value, offset: int) -> ir.Value:
        moved = self.builder.add(address, words(offset)) if offset else address
        return self.builder.inttoptr(moved, kind.as_pointer())

    def _call(self, name: str, result: ir.Type, arguments: list[ir.Value]) -> ir.Value:
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(
            module, ir.FunctionType(result, [argument.type for argument in arguments]), name
        )
        return self.builder.call(function, arguments)
