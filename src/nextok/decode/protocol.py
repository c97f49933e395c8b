"""What the generation loop needs of a model and of a tokenizer, and nothing more.

The torch, Numba and NumPy models each offer one object that meets `Decoder`; the loop, the sampler and the server know
nothing else about them. How a cache is stored, packed or shared is each implementation's own business.
Axes: B sequences in one step, T positions, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64
from numpy.typing import NDArray

from nextok.tokenizer import TextStream


@runtime_checkable
class Decoder(Protocol):
    """A language model that reads ids into slots and answers with the logits of what comes next.

    A slot is a row of the preallocated cache and holds one sequence, at positions 0 .. length - 1. All slots start
    empty and are strangers: what one holds never changes another's logits. One thread calls a decoder at a time.

    Logits are finite float32 (-inf for an id that cannot come). The array may be a view of a buffer that the next call
    overwrites, and the caller never writes into it. A call that raises leaves every slot as it was.

    A slot number outside 0 .. n_slots - 1 is the caller's own fault (`IndexError`), not a user's.
    """

    @property
    def context(self) -> int:
        """The largest number of ids that a slot can hold."""

    @property
    def vocab_size(self) -> int:
        """V, the length of a row of logits; rows that only pad the vocabulary count too."""

    @property
    def n_slots(self) -> int:
        """The number of sequences that can be held at once."""

    def prefill(
        self, slot: int, ids_T: Int64[np.ndarray, " T"], *, all_positions: bool = False
    ) -> Float32[np.ndarray, " V"] | Float32[np.ndarray, "T V"]:
        """Appends the ids to what the slot holds; returns the logits after the last id, or after each of them.

        A prompt read in several calls gives the logits of one call, within rounding.

        Args:
            slot: Which sequence reads.
            ids_T: At least one id, each in 0 .. vocab_size - 1.
            all_positions: Return `[T, V]`, one row an id of this call, where False returns the last row, `[V]`.

        Raises:
            PromptError: for no ids, an id out of range, or more ids than the slot has room for.
        """

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Float32[np.ndarray, "B V"]:
        """Appends one id to each of the slots, whatever their lengths; returns one row of logits for each, in order.

        Args:
            slots: At least one slot, none of them twice, each with room for one more id.
            ids: One id a slot, each in 0 .. vocab_size - 1.

        Raises:
            PromptError: for an id out of range or a slot that is full.
        """

    def truncate(self, slot: int, length: int) -> None:
        """Forgets all but the first `length` ids of the slot, 0 <= length <= `length(slot)`."""

    def copy(self, source: int, target: int, length: int) -> None:
        """Lengthens `target` to `length` ids, at most `length(source)`, with what `source` has computed there.

        The caller knows that the first `length` ids of `source` begin with those that `target` holds. It costs a copy
        of memory where reading the ids would cost a pass over the weights.
        """

    def release(self, slot: int) -> None:
        """Empties the slot for the next sequence; on an empty one this does nothing."""

    def length(self, slot: int) -> int:
        """Returns how many ids the slot holds."""


@runtime_checkable
class TextSource(Protocol):
    """The part of a `Tokenizer` that the loop uses."""

    @property
    def vocab_size(self) -> int:
        """The number of ids that mean something; a model may pad its rows beyond them."""

    @property
    def end_of_text(self) -> int | None:
        """The id that ends a document, None where the vocabulary has none."""

    def stream(self, after: Sequence[int] | NDArray[np.integer[Any]] = ()) -> TextStream:
        """Returns a new stream for one sequence, which goes on after the given ids."""
