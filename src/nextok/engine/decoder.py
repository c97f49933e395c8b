"""The Numba decoder: the `Decoder` protocol over a packed model and a cache of keys and values."""

import threading
from collections.abc import Sequence
from typing import Any, Literal

import numba
import numpy as np
from jaxtyping import Float32, Int
from numpy.typing import NDArray

from nextok import machine
from nextok.decode import Slots
from nextok.engine.forward import forward
from nextok.engine.layout import padded, tiles_across
from nextok.engine.packed import PackedModel
from nextok.engine.plan import rotations, shape_record
from nextok.engine.tiles import BF16, F32, NARROW_BYTES, TILE, TILE_BYTES
from nextok.errors import InputError

_MOST_ROWS = 256
"""Tokens that pass through the model at once: they pay for loading the matrices, and GPT-2 needs 12 MB of scratch."""
_QUERIES = 8
"""Queries that pass over the keys together."""
_ONE_AT_A_TIME = threading.Lock()
"""A call uses all cores; and Numba's own thread pool, where there is no OpenMP, ends a process that enters it twice."""


class NumbaDecoder(Slots):
    """Decodes on the CPU, the whole model in one compiled function.

    A row's logits are the same to the last bit whatever else is computed in the same call: chunks, batches and single
    steps agree. The first call compiles (some seconds, kept on disk).

    Args:
        packed: The model.
        n_slots: Sequences that can be decoded at once.
        cache: float32, or bfloat16 for half the memory and time at long contexts. Default: bfloat16, but float32 for
            fp32 weights.
        threads: Cores to use. Default: those this process may use.

    Raises:
        InputError: if the model has no causal mask, since its past would depend on its future.
    """

    def __init__(
        self,
        packed: PackedModel,
        n_slots: int = 1,
        *,
        cache: Literal["fp32", "bf16"] | None = None,
        threads: int | None = None,
    ) -> None:
        config = packed.config
        if config.mask != "causal":
            raise InputError("A model without the causal mask cannot generate: its past depends on its future.")
        super().__init__(n_slots, config.context, config.vocab_size)
        self.packed = packed
        self._threads = min(threads or machine.usable_cores(), numba.config.NUMBA_NUM_THREADS)
        kind = {"fp32": F32, "bf16": BF16}[cache or ("fp32" if packed.precision == "fp32" else "bf16")]
        heads = 2 * config.n_layers * n_slots * config.n_kv_heads
        tiles = heads * tiles_across(config.d_head) * tiles_across(config.context)
        past = np.zeros(tiles * TILE_BYTES[kind], np.uint8)  # numbers: what a query does not see is still multiplied
        self._shape_1 = shape_record(config, packed.plan, n_slots=n_slots, past_kind=kind)
        self._span = max(1, _QUERIES * config.n_kv_heads // config.n_heads)
        self._model = (*_model_arrays(packed), rotations(config), past.view(np.float32), past.view(np.uint16))
        keys, values = past.reshape(2, config.n_layers, n_slots, config.n_kv_heads, -1)
        across, along = tiles_across(config.d_head), tiles_across(config.context)
        self._keys = keys.reshape(*keys.shape[:3], along, -1)
        self._values = values.reshape(*values.shape[:3], across, along, -1)
        self._scratch: tuple[NDArray[Any], ...] = ()
        self._logits_MV = np.empty((0, padded(config.vocab_size)), np.float32)

    def prefill(
        self, slot: int, ids_T: Sequence[int] | Int[np.ndarray, " T"], *, all_positions: bool = False
    ) -> Float32[np.ndarray, " V"] | Float32[np.ndarray, "T V"]:
        """Appends the ids to the slot; returns the logits after the last one `[V]`, or after each `[T, V]`.

        Raises:
            PromptError: if there are no ids, one is not in the vocabulary, or they do not fit into the context.
        """
        checked_T = self._checked_ids(ids_T)
        start, T = self.length(slot), len(checked_T)
        self._check_room([slot], T)
        pairs_T = self._pairs(np.concatenate([self._last_ids([slot]), checked_T[:-1]]), checked_T)
        whole_TV = np.empty((T, self.vocab_size), np.float32) if all_positions and T > _MOST_ROWS else None
        logits_MV = self._logits_MV
        for first in range(0, T, _MOST_ROWS):
            chunk = slice(first, first + _MOST_ROWS)
            ids_M = checked_T[chunk]
            rows = len(ids_M)
            positions_M = np.arange(start + first, start + first + rows)
            firsts_P = np.arange(0, rows, self._span)
            counts_P = np.minimum(self._span, rows - firsts_P)
            wanted = rows if all_positions else int(first + rows == T)
            logits_MV = self._run(ids_M, pairs_T[chunk], np.full(rows, slot), positions_M, firsts_P, counts_P, wanted)
            if whole_TV is not None:
                whole_TV[first : first + rows] = logits_MV
        self._hold(slot, checked_T)
        if whole_TV is not None:
            return whole_TV
        return logits_MV if all_positions else logits_MV[0]

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Float32[np.ndarray, "B V"]:
        """Appends one id to each of the slots (all different); returns the logits after it, a row a slot.

        Raises:
            PromptError: if an id is not in the vocabulary, or a slot has no room left.
        """
        assert len(slots) == len(ids), f"slots {slots} and ids {ids}: one id for each slot"
        self._check_room(slots, 1)
        ids_B, slots_B = self._checked_ids(ids), np.asarray(slots, np.int64)
        positions_B = np.array([self._lengths[slot] for slot in slots])
        pairs_B = self._pairs(self._last_ids(slots), ids_B)
        firsts_P, counts_P = np.arange(len(ids)), np.ones(len(ids), np.int64)
        logits_BV = self._run(ids_B, pairs_B, slots_B, positions_B, firsts_P, counts_P, len(ids))
        for at, slot in enumerate(slots):
            self._hold(slot, ids_B[at : at + 1])
        return logits_BV

    def _copy_cache(self, source: int, target: int, positions: slice) -> None:
        """Copies whole tiles: what the target holds of the first is, to the last bit, what the source holds."""
        tiles = slice(positions.start // TILE, tiles_across(positions.stop))
        self._keys[:, target, :, tiles] = self._keys[:, source, :, tiles]
        self._values[:, target, :, :, tiles] = self._values[:, source, :, :, tiles]

    def _pairs(self, before_M: NDArray[np.int64], ids_M: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows of the table of pairs, -1 where a token is the first or the model has no such table."""
        rows = self.packed.config.bigrams
        if not rows:
            return np.full(len(ids_M), -1)
        return np.where(before_M < 0, -1, (before_M * self.vocab_size + ids_M) % rows)

    def _run(
        self,
        ids_M: NDArray[np.int64],
        pairs_M: NDArray[np.int64],
        slots_M: NDArray[np.int64],
        positions_M: NDArray[np.int64],
        firsts_P: NDArray[np.int64],
        counts_P: NDArray[np.int64],
        wanted: int,
    ) -> NDArray[np.float32]:
        rows = len(ids_M)
        self._make_room(rows, wanted)
        if numba.get_num_threads() != self._threads:  # belongs to the calling thread, which may be another each time
            numba.set_num_threads(self._threads)
        with _ONE_AT_A_TIME:
            forward(
                self._shape_1,
                *self._model,
                ids_M,
                pairs_M,
                slots_M,
                positions_M,
                firsts_P,
                counts_P,
                rows - wanted,
                *self._scratch,
                self._logits_MV,
            )
        return self._logits_MV[:wanted, : self.vocab_size]

    def _make_room(self, rows: int, wanted: int) -> None:
        """Grows the scratch to what this call needs; what lies beyond a row's width stays zero for ever."""
        config = self.packed.config
        if not self._scratch or self._scratch[0].shape[0] < rows:
            D, F, mixed = padded(config.d_model), padded(config.d_ff), padded(config.n_heads * config.d_head)
            widest = max(D, F, mixed) // TILE * NARROW_BYTES
            widths = [D, D, widest, padded(config.qkv_width), mixed, padded(config.up_width), F]
            kinds = [np.float32, np.float32, np.uint8, np.float32, np.float32, np.float32, np.float32]
            self._scratch = tuple(np.zeros((rows, width), kind) for width, kind in zip(widths, kinds, strict=True))
        if self._logits_MV.shape[0] < wanted:
            self._logits_MV = np.empty((wanted, padded(config.vocab_size)), np.float32)


def _model_arrays(packed: PackedModel) -> tuple[NDArray[Any], ...]:
    memory = packed.plan
    matrices = memory.matrices.copy()
    matrices["address"] = packed.arena.ctypes.data + matrices["begin"]
    arena = packed.arena
    return memory.layers, matrices, packed.vectors, arena, arena.view(np.uint16), arena.view(np.float32)
