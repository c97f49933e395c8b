"""How many tokens each slot of a decoder holds: the part of the `Decoder` protocol that is the same for all of them.

A decoder inherits it and keeps the keys and values themselves.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nextok.errors import PromptError


class Slots:
    """The slots of a decoder, counted and checked.

    Args:
        n_slots: Sequences that can be decoded at once.
        context: Most tokens a slot can hold.
        vocab_size: Ids from 0 to this, not included, are tokens.
    """

    def __init__(self, n_slots: int, context: int, vocab_size: int) -> None:
        self.n_slots, self.context, self.vocab_size = n_slots, context, vocab_size
        self._lengths = [0] * n_slots
        self._held_BS = np.zeros((n_slots, context), np.int64)

    def length(self, slot: int) -> int:
        """Returns the tokens the slot holds.

        Raises:
            IndexError: if there is no such slot.
        """
        if not 0 <= slot < self.n_slots:  # Python would count a negative one from the end
            raise IndexError(f"there is no slot {slot}; the decoder has {self.n_slots}")
        return self._lengths[slot]

    def truncate(self, slot: int, length: int) -> None:
        """Forgets all but the first `length` tokens of the slot."""
        held = self.length(slot)
        assert 0 <= length <= held, f"slot {slot} holds {held} tokens, not {length}"
        self._lengths[slot] = length

    def release(self, slot: int) -> None:
        """Empties the slot."""
        self.truncate(slot, 0)

    def copy(self, source: int, target: int, length: int) -> None:
        """Lengthens `target` to `length` tokens with what `source` holds at these positions."""
        start, held = self.length(target), self.length(source)
        assert start <= length <= held, f"slot {target} has {start} tokens and slot {source} {held}, not {length}"
        self._copy_cache(source, target, slice(start, length))
        self._held_BS[target, start:length] = self._held_BS[source, start:length]
        self._lengths[target] = length

    def _copy_cache(self, source: int, target: int, positions: slice) -> None:
        """Copies keys and values of these positions; the decoder's own part of `copy`."""
        raise NotImplementedError

    def _hold(self, slot: int, ids_T: Sequence[int] | NDArray[np.int64]) -> None:
        """Lengthens the slot by these ids."""
        start = self._lengths[slot]
        self._held_BS[slot, start : start + len(ids_T)] = ids_T
        self._lengths[slot] = start + len(ids_T)

    def _last_ids(self, slots: Sequence[int]) -> NDArray[np.int64]:
        """Returns the last id of each slot, -1 where it is empty: what a first token of more makes a pair with."""
        lengths = [self._lengths[slot] for slot in slots]
        return np.array([self._held_BS[s, n - 1] if n else -1 for s, n in zip(slots, lengths, strict=True)], np.int64)

    def _check_room(self, slots: Sequence[int], tokens: int) -> None:
        """Refuses slots named twice or without room for so many more tokens, before any of them changes."""
        assert len(set(slots)) == len(slots), f"a slot is named twice: {slots}"
        for slot in slots:
            held = self.length(slot)
            if tokens < 1 or held + tokens > self.context:
                raise PromptError(
                    f"Slot {slot} holds {held} tokens and was given {tokens} more; the context is {self.context}."
                )

    def _checked_ids(self, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
        ids_N = np.asarray(ids, dtype=np.int64)
        outside = ids_N[(ids_N < 0) | (ids_N >= self.vocab_size)]
        if outside.size:
            raise PromptError(f"Token id {outside[0]} is not in 0 to {self.vocab_size - 1}, the model's vocabulary.")
        return ids_N
