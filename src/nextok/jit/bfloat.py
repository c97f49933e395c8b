"""Numbers that lie in memory as bfloat16 or float32, and are computed with as float32.

Numba knows no bfloat16: an array of them is the array of their bits, as int16. Kernels read with `wide` and write with
`narrow`, and the array's type decides what that means; for float32 both are nothing.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_INT, _HALF, _FLOAT = ir.IntType(32), ir.IntType(16), ir.FloatType()


@intrinsic
def wide(context: Any, number: Any) -> Any:
    """Returns a number from memory as float32; a bfloat16 is the upper half of one."""
    if number == types.float32:
        return types.float32(number), lambda context, builder, signature, values: values[0]

    def widen(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> ir.Value:
        return builder.bitcast(builder.shl(builder.zext(values[0], _INT), ir.Constant(_INT, 16)), _FLOAT)

    return types.float32(number), widen


@intrinsic
def narrow(context: Any, number: Any, array: Any) -> Any:
    """Returns a float32 as this array holds numbers: the nearest bfloat16, ties to the even one, or itself."""
    if array.dtype == types.float32:
        return types.float32(number, array), lambda context, builder, signature, values: values[0]

    def round_to_even(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> ir.Value:
        bits = builder.bitcast(values[0], _INT)
        odd = builder.and_(builder.lshr(bits, ir.Constant(_INT, 16)), ir.Constant(_INT, 1))
        rounded = builder.add(bits, builder.add(odd, ir.Constant(_INT, 0x7FFF)))
        return builder.trunc(builder.lshr(rounded, ir.Constant(_INT, 16)), _HALF)

    return array.dtype(types.float32, array), round_to_even
