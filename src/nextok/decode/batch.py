"""Continuations side by side on the slots of one decoder: admission, reading, stepping, release.

Any number may wait; as many run as there are slots, one enters as soon as a slot is free, and each goes on
as it would alone. Single-threaded: the server gives it a thread of its own.
"""

from collections import deque
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from jaxtyping import Float32, Int64

from nextok.decode.config import SamplingConfig
from nextok.decode.continuation import Continuation, Event
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Ids
from nextok.errors import NextokError

Outcome = tuple[Continuation, Event | NextokError]
"""What one step did for one continuation: a token, or the error that ended it."""


class Batch:
    """Runs continuations together. As a context manager it releases every slot at the end, whatever happens.

    Args:
        decoder: The model.
        tokenizer: Makes the text, or None.
        slots: The slots to use, which nobody else may use meanwhile. Default: all of the decoder's.
    """

    def __init__(self, decoder: Decoder, tokenizer: TextSource | None, *, slots: Sequence[int] | None = None) -> None:
        self._decoder, self._tokenizer = decoder, tokenizer
        self._free = deque(range(decoder.n_slots) if slots is None else slots)
        self._waiting: deque[Continuation] = deque()
        self._running: dict[int, Continuation] = {}

    def __enter__(self) -> "Batch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def busy(self) -> bool:
        """Whether any continuation is running or waiting."""
        return bool(self._running or self._waiting)

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
        """Draws one token for every continuation that has a slot, after giving the free slots to those that wait.

        An error of one continuation is its own outcome and frees its slot; the others go on. An error of a step that
        they take together is raised.
        """
        while self._free and self._waiting:
            self._running[self._free.popleft()] = self._waiting.popleft()
        outcomes: list[Outcome] = []
        stepping: list[int] = []
        for slot, continuation in list(self._running.items()):
            window_T = continuation.window(self._decoder.length(slot))
            if window_T is None:
                stepping.append(slot)
            else:
                outcomes.append(self._read(slot, window_T))
        if stepping:
            logits_BV = self._decoder.step(stepping, [self._running[slot].last_id for slot in stepping])
            outcomes += [self._accept(slot, logits_V) for slot, logits_V in zip(stepping, logits_BV, strict=True)]
        return outcomes

    def cancel(self, continuation: Continuation) -> None:
        """Ends a continuation at once and frees its slot; one that has ended already is left alone."""
        if continuation in self._waiting:
            self._waiting.remove(continuation)
        for slot, running in list(self._running.items()):
            if running is continuation:
                self._release(slot)

    def close(self) -> None:
        """Cancels everything and releases every slot."""
        self._waiting.clear()
        for slot in list(self._running):
            self._release(slot)

    def _read(self, slot: int, window_T: Int64[np.ndarray, " T"]) -> Outcome:
        try:
            self._decoder.truncate(slot, 0)
            logits_V = self._decoder.prefill(slot, window_T)
        except NextokError as error:
            return self._fail(slot, error)
        return self._accept(slot, logits_V)

    def _accept(self, slot: int, logits_V: Float32[np.ndarray, " V"]) -> Outcome:
        continuation = self._running[slot]
        try:
            event = continuation.accept(logits_V, self._decoder.length(slot))
        except NextokError as error:
            return self._fail(slot, error)
        if event.finish_reason is not None:
            self._release(slot)
        return continuation, event

    def _fail(self, slot: int, error: NextokError) -> Outcome:
        continuation = self._running[slot]
        self._release(slot)
        return continuation, error

    def _release(self, slot: int) -> None:
        del self._running[slot]
        self._free.append(slot)
        self._decoder.release(slot)
