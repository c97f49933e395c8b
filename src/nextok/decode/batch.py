"""Continuations side by side on the slots of one decoder: who gets a slot, who reads, who steps, who leaves.

Any number may wait; as many run as there are slots, and each goes on as it would alone. A step is bounded: one id for
every running text, then a few ids of the prompts still being read, in turns, so that a long prompt holds nobody up.
Single-threaded: the server gives it a thread of its own.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from jaxtyping import Float32, Int64

from nextok.decode.config import SamplingConfig
from nextok.decode.continuation import Continuation, Event
from nextok.decode.prefixes import Prefixes
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Ids
from nextok.errors import ConfigError, NextokError

Outcome = tuple[Continuation, Event | NextokError]
"""What one step did for one continuation: a token, or the error that ended it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchStats:
    """A batch at one moment, and what it has done so far."""

    waiting: int
    """Continuations without a slot."""
    reading: int
    """Continuations with a slot whose prompt, or window after an overflow, is being read."""
    running: int
    """Continuations that get a token in the next step."""
    prefix_tokens_reused: int
    """Ids of prompts, and of windows after an overflow, that a slot held already."""
    prompt_tokens_read: int
    """Ids of the same that the model had to read."""
    tokens_drawn: int
    """Tokens handed out."""


@dataclass(slots=True)
class _Seat:
    """A continuation that has a slot. While it reads, `window` are the ids that the slot is to hold."""

    slot: int
    continuation: Continuation
    window: Int64[np.ndarray, " T"]


class Batch:
    """Runs continuations together. As a context manager it releases every slot at the end, whatever happens.

    Args:
        decoder: The model, whose weights stay as they are while the batch is open.
        tokenizer: Makes the text, or None.
        slots: The slots to use, which nobody else may use meanwhile. Default: all of the decoder's.
        chunk: Most ids of prompts that one step reads, 1 or more. Small keeps the running texts even, large reads
            prompts with fewer passes over the weights. 64 costs a CPU about as much as a few steps.
        reuse: Whether ids that a slot still holds from another text are taken over instead of read again.

    Raises:
        ConfigError: if `chunk` is less than 1.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: TextSource | None,
        *,
        slots: Sequence[int] | None = None,
        chunk: int = 64,
        reuse: bool = True,
    ) -> None:
        if chunk < 1:
            raise ConfigError(f"chunk = {chunk} is not a whole number of at least 1.")
        self._decoder, self._tokenizer, self._chunk = decoder, tokenizer, chunk
        self._slots = tuple(range(decoder.n_slots) if slots is None else slots)
        self._prefixes = Prefixes(decoder, self._slots, reuse=reuse)
        self._free = list(self._slots)  # the one longest unused first
        self._waiting: deque[Continuation] = deque()
        self._reading: deque[_Seat] = deque()
        self._running: list[_Seat] = []
        self._n_reused = self._n_read = self._n_drawn = 0

    def __enter__(self) -> "Batch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def busy(self) -> bool:
        """Whether any continuation is running, reading or waiting."""
        return bool(self._running or self._reading or self._waiting)

    @property
    def stats(self) -> BatchStats:
        """How many wait, read and run now, and what was read, reused and drawn since the start."""
        return BatchStats(
            waiting=len(self._waiting),
            reading=len(self._reading),
            running=len(self._running),
            prefix_tokens_reused=self._n_reused,
            prompt_tokens_read=self._n_read,
            tokens_drawn=self._n_drawn,
        )

    def submit(
        self, prompt_ids: Ids, config: SamplingConfig, *, choice: int = 0, explain: bool = False
    ) -> Continuation:
        """Returns a new continuation, which waits for a slot; one that wants no tokens has ended already.

        Raises:
            PromptError: if the prompt cannot be served.
            ConfigError: if an option does not fit the vocabulary.
        """
        continuation = Continuation(
            prompt_ids,
            config,
            self._tokenizer,
            context=self._decoder.context,
            vocab_size=self._decoder.vocab_size,
            choice=choice,
            explain=explain,
        )
        if continuation.finish_reason is None:
            self._waiting.append(continuation)
        return continuation

    def step(self) -> list[Outcome]:
        """Draws a token for every running continuation, gives out the free slots, and reads at most `chunk` ids.

        Returns what came of it, at most one outcome a continuation; none yet for those that wait or read. An error of
        one continuation is its own outcome and frees its slot; the others go on. An error of the step that they take
        together, and what is no `NextokError`, is raised.
        """
        outcomes = self._decode()
        self._admit()
        return outcomes + self._read()

    def cancel(self, continuation: Continuation) -> None:
        """Ends a continuation at once and frees its slot; one that has ended already is left alone."""
        self._waiting = deque(each for each in self._waiting if each is not continuation)
        for seats in (self._reading, self._running):
            for seat in [each for each in seats if each.continuation is continuation]:
                seats.remove(seat)
                self._free.append(seat.slot)

    def close(self) -> None:
        """Cancels everything and empties every slot."""
        self._waiting.clear()
        self._reading.clear()
        self._running.clear()
        self._free = list(self._slots)
        for slot in self._slots:
            self._prefixes.forget(slot)

    def _decode(self) -> list[Outcome]:
        """Runs one step for all whose slot has room; the others are to read a new window."""
        going_on = []
        for seat in self._running:
            window_T = seat.continuation.window(self._prefixes.held(seat.slot).size)
            if window_T is None:
                going_on.append(seat)
            else:
                self._start_reading(seat.slot, seat.continuation, window_T)
        self._running = going_on
        if not going_on:
            return []
        slots, ids = [seat.slot for seat in going_on], [seat.continuation.last_id for seat in going_on]
        logits_BV = self._prefixes.step(slots, ids)
        self._running = []
        return [self._accept(seat, logits_V) for seat, logits_V in zip(going_on, logits_BV, strict=True)]

    def _admit(self) -> None:
        while self._free and self._waiting:
            continuation = self._waiting.popleft()
            window_T = continuation.window(0)
            assert window_T is not None, "an empty slot has something to read"
            slot = self._prefixes.best(self._free, window_T)
            self._free.remove(slot)
            self._start_reading(slot, continuation, window_T)

    def _start_reading(self, slot: int, continuation: Continuation, window_T: Int64[np.ndarray, " T"]) -> None:
        self._n_reused += self._prefixes.keep(slot, window_T)
        self._reading.append(_Seat(slot, continuation, window_T))

    def _read(self) -> list[Outcome]:
        """Lets those that read take turns until `chunk` ids are read; whoever comes to the end draws a token."""
        outcomes: list[Outcome] = []
        budget = self._chunk
        while self._reading:
            seat = self._reading[0]
            # Choices of one prompt share the work: each takes over what the others have read since its last turn.
            self._n_reused += self._prefixes.extend(seat.slot, seat.window)
            start = self._prefixes.held(seat.slot).size
            if start == seat.window.size - 1 > 0:  # one id is a row of the next step, beside all others
                self._n_read += 1
                self._running.append(self._reading.popleft())
                continue
            piece_T = seat.window[start : start + self._chunk]
            if piece_T.size > budget:  # cut smaller, the rounding of logits would depend on who else is reading
                break
            budget -= piece_T.size
            outcomes += self._read_piece(seat, piece_T)
        return outcomes

    def _read_piece(self, seat: _Seat, piece_T: Int64[np.ndarray, " T"]) -> list[Outcome]:
        try:
            logits_V = self._prefixes.read(seat.slot, piece_T)
        except NextokError as error:
            self._reading.popleft()
            return [self._fail(seat, error)]
        self._reading.popleft()
        self._n_read += piece_T.size
        if self._prefixes.held(seat.slot).size == seat.window.size:
            return [self._accept(seat, logits_V)]
        self._reading.append(seat)
        return []

    def _accept(self, seat: _Seat, logits_V: Float32[np.ndarray, " V"]) -> Outcome:
        """Draws a token for a seat that is in no queue, which is running or gone afterwards."""
        try:
            event = seat.continuation.accept(logits_V, self._prefixes.held(seat.slot).size)
        except NextokError as error:
            return self._fail(seat, error)
        self._n_drawn += 1
        if event.finish_reason is None:
            self._running.append(seat)
        else:
            self._free.append(seat.slot)
        return seat.continuation, event

    def _fail(self, seat: _Seat, error: NextokError) -> Outcome:
        """Frees a seat that is in no queue; what it leaves in the slot is not trusted."""
        self._prefixes.forget(seat.slot)
        self._free.append(seat.slot)
        return seat.continuation, error
