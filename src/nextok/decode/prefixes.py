"""The slots of a decoder with a record of the ids that each one holds, so that a beginning is read only once.

A slot that is given up keeps its ids until somebody else needs it. Every call that moves the decoder goes through here,
which is what keeps the record true. What to read, and when, is `batch`'s.
Axes: B rows of a step, S and T ids, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from nextok.decode.protocol import Decoder


class Prefixes:
    """Slots that know what they hold. Nothing is known of a slot at first; whatever lies in it is dropped on first use.

    Args:
        decoder: The model.
        slots: The slots to use, which nobody else may use meanwhile.
        reuse: Whether to keep and copy what was read. Off, every text is read from its first id.
    """

    def __init__(self, decoder: Decoder, slots: Sequence[int], *, reuse: bool = True) -> None:
        self._decoder, self._reuse = decoder, reuse
        self._ids = {slot: np.empty(decoder.context, dtype=np.int64) for slot in slots}
        self._lengths = dict.fromkeys(slots, 0)

    def held(self, slot: int) -> Int64[np.ndarray, " T"]:
        """Returns the ids that the slot holds; a view that lasts until the slot changes."""
        return self._ids[slot][: self._lengths[slot]]

    def shared(self, slot: int, ids_T: Int64[np.ndarray, " T"]) -> int:
        """Returns how many leading ids the slot holds, never all: the logits come from running the last one."""
        return common_prefix(self.held(slot), ids_T[:-1]) if self._reuse else 0

    def best(self, free: Sequence[int], ids_T: Int64[np.ndarray, " T"]) -> int:
        """Returns the free slot in which to read the ids.

        The one that shares most with them, unless it would lose more than it keeps or a busy one shares more: then the
        first of `free`, which should be the one longest unused, since `extend` copies what is elsewhere.
        """
        busy = [slot for slot in self._ids if slot not in free]
        closest = max([*free, *busy], key=lambda slot: self.shared(slot, ids_T))
        stays = closest in free and 2 * self.shared(closest, ids_T) >= self._lengths[closest]
        return closest if stays else free[0]

    def keep(self, slot: int, ids_T: Int64[np.ndarray, " T"]) -> int:
        """Drops what the slot does not share with the ids it is to read; returns how many of them it holds then."""
        length = self.shared(slot, ids_T)
        self._decoder.truncate(slot, length)
        self._lengths[slot] = length
        return length

    def extend(self, slot: int, ids_T: Int64[np.ndarray, " T"]) -> int:
        """Copies from the slot that shares most with the ids, where that is more; returns how many more it is.

        Args:
            slot: A slot that holds leading ids of `ids_T` and nothing else.
            ids_T: What it is to hold.
        """
        before = self._lengths[slot]
        source = max(self._ids, key=lambda other: self.shared(other, ids_T))
        length = self.shared(source, ids_T)
        if length <= before:
            return 0
        self._decoder.copy(source, slot, length)
        self._record(slot, ids_T[before:length])
        return length - before

    def read(self, slot: int, ids_T: Int64[np.ndarray, " T"]) -> Float32[np.ndarray, " V"]:
        """Appends the ids to the slot; returns the logits after the last one.

        Raises:
            PromptError: as `Decoder.prefill` does.
        """
        logits_V = self._decoder.prefill(slot, ids_T)
        self._record(slot, ids_T)
        return logits_V

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Float32[np.ndarray, "B V"]:
        """Appends one id to each of the slots; returns one row of logits for each.

        Raises:
            PromptError: as `Decoder.step` does.
        """
        logits_BV = self._decoder.step(slots, ids)
        for slot, id in zip(slots, ids, strict=True):
            self._record(slot, np.array([id]))
        return logits_BV

    def forget(self, slot: int) -> None:
        """Empties the slot."""
        self._decoder.release(slot)
        self._lengths[slot] = 0

    def _record(self, slot: int, ids_T: Int64[np.ndarray, " T"]) -> None:
        start, stop = self._lengths[slot], self._lengths[slot] + ids_T.size
        self._ids[slot][start:stop] = ids_T
        self._lengths[slot] = stop


def common_prefix(one_T: Int64[np.ndarray, " T"], other_S: Int64[np.ndarray, " S"]) -> int:
    """Returns how many leading ids two texts have in common."""
    size = min(one_T.size, other_S.size)
    differing = np.flatnonzero(one_T[:size] != other_S[:size])
    return int(differing[0]) if differing.size else size
