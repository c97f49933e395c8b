"""Several tokens a pass over the weights: guesses are read together, and kept as far as they are what is drawn anyway.

Reading four ids costs a memory-bound machine hardly more than reading one. Every token is drawn from the model's own
logits with its own number, exactly as without guesses, so the text is the same text, greedy or sampled, with every
option; a guess only decides whether the logits for the next token are there already. (The same up to the rounding of
logits: a model may round a row that is read with others differently, and where two ids are tied to the last bit, the
text may turn the other way.)
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from nextok.decode.config import SamplingConfig
from nextok.decode.continuation import Continuation, Event, Generation
from nextok.decode.drafts import Drafter
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Ids
from nextok.errors import ConfigError, NextokError


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationConfig:
    """How far to guess, and when to leave it.

    Raises:
        ConfigError: for a number below its least.
    """

    n_drafts: int = 3
    """Most ids guessed at a time, 1 or more. Default: with the newest id four rows, which cost a CPU about one."""
    window: int = 16
    """Passes over guesses after which it is judged whether they pay, 1 or more."""
    rest_tokens: int = 64
    """Tokens without guesses after a window that did not pay; doubled each time in a row, up to 16 times. 0 goes on
    guessing whatever it costs."""

    def __post_init__(self) -> None:
        for name, least in (("n_drafts", 1), ("window", 1), ("rest_tokens", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)} is less than {least}.")


@dataclass(slots=True)
class SpeculationCounts:
    """What guessing has done so far."""

    n_plain: int = 0
    """Passes that read one id and gave one token."""
    n_verified: int = 0
    """Passes that read guesses."""
    n_drafted: int = 0
    """Guesses read."""
    n_accepted: int = 0
    """Guesses that were right, each a pass saved."""
    n_rests: int = 0
    """Times that guessing did not pay and was left for a while."""


class Speculation:
    """Generates with one decoder and a drafter; what it learns of their speed stays from text to text.

    Args:
        decoder: The model.
        tokenizer: Makes the text, or None.
        drafter: Guesses.
        options: How far, and when to leave it.
        slot: The slot to use, empty and nobody else's meanwhile.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: TextSource | None,
        drafter: Drafter,
        options: SpeculationConfig | None = None,
        *,
        slot: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._decoder, self._tokenizer, self._drafter, self._slot = decoder, tokenizer, drafter, slot
        self._options = options or SpeculationConfig()
        self._clock, self._pace = clock, _Pace(self._options)
        self.counts = SpeculationCounts()
        """What guessing has done, over all texts."""

    def stream(
        self, prompt_ids: Ids, config: SamplingConfig, *, choice: int = 0, explain: bool = False
    ) -> Generator[Event, None, None]:
        """Returns the events of one continuation: those of `nextok.decode.stream`, some of them at once.

        Raises:
            PromptError: if the prompt cannot be served, or bans leave no token.
            ConfigError: if an option does not fit the vocabulary.
            NonFiniteError: if the model's logits are not a distribution.
        """
        return self._events(self._start(prompt_ids, config, choice, explain=explain))

    def generate(self, prompts: Sequence[Ids], config: SamplingConfig) -> list[list[Generation]]:
        """Returns for each prompt its `config.n` continuations, one after the other: those of `nextok.decode.generate`.

        Raises:
            PromptError: if a prompt cannot be served, before anything has run, or bans leave no token.
            ConfigError: if an option does not fit the vocabulary.
            NonFiniteError: if the model's logits are not a distribution.
        """
        table = [[self._start(ids, config, choice) for choice in range(config.n)] for ids in prompts]
        for continuation in (each for row in table for each in row):
            deque(self._events(continuation), maxlen=0)
        return [[continuation.generation() for continuation in row] for row in table]

    def _start(self, prompt_ids: Ids, config: SamplingConfig, choice: int, *, explain: bool = False) -> Continuation:
        return Continuation(
            prompt_ids,
            config,
            self._tokenizer,
            context=self._decoder.context,
            vocab_size=self._decoder.vocab_size,
            choice=choice,
            explain=explain,
        )

    def _events(self, continuation: Continuation) -> Generator[Event, None, None]:
        try:
            while continuation.finish_reason is None:
                yield from self._advance(continuation)
        finally:
            self._decoder.release(self._slot)
            self._drafter.release()

    def _advance(self, continuation: Continuation) -> list[Event]:
        """Runs one pass; what it gives is whole before anyone sees it, since the logits may be overwritten."""
        window_T = continuation.window(self._decoder.length(self._slot))
        if window_T is not None:
            self._decoder.truncate(self._slot, 0)
            logits_V = self._decoder.prefill(self._slot, window_T)
            return [continuation.accept(logits_V, self._decoder.length(self._slot))]
        began = self._clock()
        drafts_T = self._drafts(continuation)
        if drafts_T.size == 0:
            (logits_V,) = self._decoder.step([self._slot], [continuation.last_id])
            events = [continuation.accept(logits_V, self._decoder.length(self._slot))]
            self.counts.n_plain += 1
            self._pace.took_plain(self._clock() - began)
        else:
            events = self._verify(continuation, drafts_T)
            self.counts.n_rests += self._pace.took_verified(self._clock() - began, len(events))
        return events

    def _drafts(self, continuation: Continuation) -> np.ndarray:
        """Returns guesses that fit: into the context, and into the tokens that are wanted after the next one."""
        room = self._decoder.context - self._decoder.length(self._slot) - 1
        wanted = continuation.config.max_new_tokens - continuation.chooser.n_new - 1
        most = min(self._options.n_drafts, room, wanted)
        if most < 1 or not self._pace.guesses():
            return np.empty(0, np.int64)
        return continuation.chooser.possible(self._drafter.propose(continuation.chooser, most)[:most])

    def _verify(self, continuation: Continuation, drafts_T: np.ndarray) -> list[Event]:
        n_held = self._decoder.length(self._slot)
        ids_T = np.append(np.int64(continuation.last_id), drafts_T)
        logits_TV = self._decoder.prefill(self._slot, ids_T, all_positions=True)
        events: list[Event] = []
        for n_right, logits_V in enumerate(logits_TV):
            try:
                events.append(continuation.accept(logits_V, n_held + n_right + 1))
            except NextokError:
                if not events:
                    raise
                break  # what came before is handed out first; the next pass meets the error again
            over = continuation.finish_reason is not None or n_right == drafts_T.size
            if over or events[-1].id != drafts_T[n_right]:
                break
        self._decoder.truncate(self._slot, n_held + len(events))
        self.counts.n_verified += 1
        self.counts.n_drafted += drafts_T.size
        self.counts.n_accepted += len(events) - 1
        return events


class _Pace:
    """Whether guessing pays: seconds a token with guesses, against the seconds of a pass without."""

    _N_PLAIN = 4  # passes that must have been timed; the first of them may be slow
    _LONGEST = 16  # rests at most so many times as long as the first

    def __init__(self, options: SpeculationConfig) -> None:
        self._options = options
        self._plain_s: deque[float] = deque(maxlen=max(8, options.window))
        self._verified: list[tuple[float, int]] = []
        self._n_resting = 0 if options.rest_tokens == 0 else self._N_PLAIN
        self._next_rest = options.rest_tokens

    def guesses(self) -> bool:
        """Whether the next pass is to read guesses."""
        return self._n_resting == 0

    def took_plain(self, seconds: float) -> None:
        """Notes a pass that gave one token."""
        self._plain_s.append(seconds)
        self._n_resting = max(0, self._n_resting - 1)

    def took_verified(self, seconds: float, n_tokens: int) -> bool:
        """Notes a pass over guesses; returns whether guessing rests from now on."""
        self._verified.append((seconds, n_tokens))
        if self._options.rest_tokens == 0 or len(self._verified) < self._options.window:
            return False
        # The median, so that one pass that waited for the machine does not decide.
        tokens = fmean(tokens for _, tokens in self._verified)
        pays = median(seconds for seconds, _ in self._verified) < tokens * median(self._plain_s)
        self._verified.clear()
        if pays:
            self._next_rest = self._options.rest_tokens
            return False
        self._n_resting = self._next_rest
        self._next_rest = min(2 * self._next_rest, self._LONGEST * self._options.rest_tokens)
        return True
