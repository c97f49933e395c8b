"""A model packed for the engine: its matrices as tiles in one arena, its vectors in one array."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.engine.layout import pack, packed_bytes, padded, unpack
from nextok.engine.plan import Plan, Precision, plan
from nextok.errors import CheckpointError
from nextok.spec import ModelConfig, parameter_shapes

_ALIGNMENT = 1 << 21  # a huge page: fewer misses when hundreds of megabytes stream through


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedModel:
    """The weights of a model, ready for the compiled functions."""

    config: ModelConfig
    """What the model is."""
    precision: Precision
    """How its matrices are kept; an int4 model's embedding and head are int8."""
    plan: Plan
    """Where everything lies."""
    arena: NDArray[np.uint8]
    """All matrices."""
    vectors: NDArray[np.float32]
    """All vectors, the scales of int8 rows among them."""

    @property
    def bytes(self) -> int:
        """Returns the memory of the weights."""
        return self.arena.nbytes + self.vectors.nbytes

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Returns what the packed numbers stand for, by native name: the model that the engine runs, in float32."""
        shapes = parameter_shapes(self.config)
        found = {}
        for name, shape in shapes.items():
            if name in self.plan.vectors:
                begin = self.plan.vectors[name]
                found[name] = self.vectors[begin : begin + self.plan.widths[name]].reshape(shape).copy()
            else:
                kind, arena, scales_N = self._matrix(name)
                found[name] = unpack(kind, arena, scales_N, *shape)
        return found

    def _matrix(self, name: str) -> tuple[int, NDArray[np.uint8], NDArray[np.float32]]:
        return _matrix(self.plan, self.config, name, self.arena, self.vectors)


def pack_model(config: ModelConfig, weights: Iterable[tuple[str, NDArray[Any]]], precision: Precision) -> PackedModel:
    """Returns the model with its matrices in a precision; weights are taken one at a time, in any order.

    Args:
        config: The model.
        weights: Native name and array of all of `nextok.spec.parameter_shapes`.
        precision: fp32 and bf16 keep or round numbers; int8 has a scale for each row, int4 one for each 32 weights.

    Raises:
        CheckpointError: if a weight is not finite, which no quantised number could say.
    """
    memory = plan(config, precision)
    arena, vectors = _aligned(memory.arena_bytes), np.zeros(memory.vector_numbers, np.float32)
    vectors[memory.ones : 2 * memory.ones] = 1.0
    missing = set(parameter_shapes(config))
    for name, array in weights:
        missing.remove(name)
        if not np.isfinite(array).all():
            raise CheckpointError(f"{name} holds numbers that are not finite.", "The training that made it diverged.")
        if name in memory.vectors:
            begin = memory.vectors[name]
            vectors[begin : begin + array.size] = np.asarray(array, np.float32).reshape(-1)
        else:
            kind, part, scales_N = _matrix(memory, config, name, arena, vectors)
            pack(kind, array, part, scales_N)
    assert not missing, f"weights not given: {sorted(missing)}"
    return PackedModel(config=config, precision=precision, plan=memory, arena=arena, vectors=vectors)


def _matrix(
    memory: Plan, config: ModelConfig, name: str, arena: NDArray[np.uint8], vectors: NDArray[np.float32]
) -> tuple[int, NDArray[np.uint8], NDArray[np.float32]]:
    """Returns format, bytes and row scales of a matrix, as views."""
    record = memory.matrices[memory.names.index(name)]
    rows, columns = parameter_shapes(config)[name]
    begin, kind = int(record["begin"]), int(record["kind"])
    scales = int(record["scales"])
    return (
        kind,
        arena[begin : begin + packed_bytes(kind, rows, columns)],
        vectors[scales : scales + padded(rows)],
    )


def _aligned(size: int) -> NDArray[np.uint8]:
    whole = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -whole.ctypes.data % _ALIGNMENT
    return whole[begin : begin + size]
