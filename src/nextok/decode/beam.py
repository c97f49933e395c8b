"""Beam search: the likeliest whole continuations, as far as a few kept side by side can find them.

Nothing is drawn. The result is that of transformers, scores included, but for one thing: equal scores there fall as the
machine likes, here to the better beam, then to the lowest id.
Axes: B beams, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nextok.decode.config import SamplingConfig
from nextok.decode.continuation import FinishReason, Generation, check_prompt
from nextok.decode.filters import top_k
from nextok.decode.logprobs import log_softmax
from nextok.decode.prefixes import common_prefix
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Ids, check_vocabulary
from nextok.errors import ConfigError, PromptError


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamConfig:
    """The options of a beam search, checked when made.

    Raises:
        ConfigError: for a value out of range.
    """

    n_beams: int = 4
    """Continuations kept side by side, 1 or more; each takes a slot. 1 is greedy decoding."""
    n_best: int = 1
    """Finished continuations to return, in 1 .. n_beams."""
    max_new_tokens: int = 200
    """Most tokens to add, 1 or more; the context may hold fewer."""
    min_new_tokens: int = 0
    """Tokens before which end of text cannot come."""
    length_penalty: float = 1.0
    """A score is the sum of log-probabilities divided by the number of tokens to this power: above 0 favours long
    texts, 0 leaves the sum. Default: that of transformers, the mean."""
    early_stopping: bool | Literal["never"] = False
    """When to end: True as soon as `n_beams` texts are finished; False when the best running beam, at its present
    length, is no better than the worst of them; `never` when it cannot become better at any length."""
    ignore_end: bool = False
    """Take end of text for a token like any other."""
    banned_ids: tuple[int, ...] = ()
    """Ids that never come."""

    def __post_init__(self) -> None:
        for name in ("n_beams", "n_best", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)} is not a whole number of at least 1.")
        if self.n_best > self.n_beams:
            raise ConfigError(f"n_best = {self.n_best} is more than the {self.n_beams} beams.", "Raise n_beams.")
        if not np.isfinite(self.length_penalty):
            raise ConfigError(f"length_penalty = {self.length_penalty} is not a finite number.")
        if self.early_stopping not in (True, False, "never"):
            raise ConfigError(f"early_stopping = {self.early_stopping!r} is not one of True, False, 'never'.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beam:
    """A finished continuation with its score."""

    generation: Generation
    """The text, its ids with end of text, their log-probabilities."""
    score: float
    """The sum of the log-probabilities divided by the number of tokens to the power `length_penalty`."""


@dataclass(frozen=True, slots=True)
class _Path:
    """New ids from the prompt on, with their log-probabilities and the slot that holds all but the newest."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    total: float
    slot: int

    def score(self, length_penalty: float) -> float:
        return self.total / len(self.ids) ** length_penalty


def beam_search(
    decoder: Decoder, tokenizer: TextSource | None, prompt_ids: Ids, config: BeamConfig | None = None
) -> list[Beam]:
    """Returns the `n_best` finished continuations of the prompt, best first; fewer where no more can be.

    Uses slots 0 to n_beams - 1, which must be empty and nobody else's meanwhile, and leaves them so. Where one beam
    goes on in two ways, the second gets a copy of its slot.

    Args:
        decoder: The model.
        tokenizer: Makes the text and says what end of text is; None gives ids alone.
        prompt_ids: Ids of the prompt; where empty, it starts from end of text.
        config: The options.

    Raises:
        ConfigError: if the decoder has too few slots, or a banned id is not in the vocabulary.
        PromptError: if the prompt cannot be read, leaves no room for a token, or the bans leave none.
        NonFiniteError: if the model's logits are not a distribution.
    """
    search = _Search(decoder, tokenizer, prompt_ids, config or BeamConfig())
    try:
        return search.run()
    finally:
        for slot in range(search.config.n_beams):
            decoder.release(slot)


class _Search:
    """One beam search on its way: the paths that run, and the best that have finished."""

    def __init__(self, decoder: Decoder, tokenizer: TextSource | None, prompt_ids: Ids, config: BeamConfig) -> None:
        if config.n_beams > decoder.n_slots:
            message = f"{config.n_beams} beams need as many slots, and the decoder has {decoder.n_slots}."
            raise ConfigError(message, "Search with fewer beams, or make the decoder with more slots.")
        self.config, self._decoder, self._tokenizer = config, decoder, tokenizer
        self._vocab_size = decoder.vocab_size if tokenizer is None else min(decoder.vocab_size, tokenizer.vocab_size)
        end = None if tokenizer is None else tokenizer.end_of_text
        self._prompt_T = check_prompt(prompt_ids, self._vocab_size, end)
        self._end = None if config.ignore_end else end
        check_vocabulary(SamplingConfig(banned_ids=config.banned_ids), self._vocab_size)
        self._longest = min(config.max_new_tokens, decoder.context - self._prompt_T.size)
        if self._longest < 1:
            message = f"The prompt has {self._prompt_T.size} tokens and the model's context holds {decoder.context}"
            raise PromptError(f"{message}, which leaves no room for a new one.", "Shorten the prompt.")
        self._finished: list[_Path] = []
        self._held = [self._prompt_T[:0]] * config.n_beams

    def run(self) -> list[Beam]:
        rows = [self._read(0, self._prompt_T)]
        running = [_Path((), (), 0.0, 0)]
        while True:
            candidates = self._candidates(running, rows)
            ended = [self._has_ended(path) for path in candidates]
            # Ends below the first n_beams do not count: they stand there only to keep n_beams running.
            best = candidates[: self.config.n_beams]
            self._finished += [path for path, is_over in zip(best, ended, strict=False) if is_over]
            self._finished = sorted(self._finished, key=self._rank)[: self.config.n_beams]
            going_on = [path for path, is_over in zip(candidates, ended, strict=True) if not is_over]
            running = going_on[: self.config.n_beams]
            if not running or self._is_over(running):
                return [self._beam(path) for path in self._finished[: self.config.n_best]]
            running, rows = self._advance(running)

    def _candidates(self, running: Sequence[_Path], rows: Sequence[np.ndarray]) -> list[_Path]:
        """Returns the best continuations of all paths by one id, twice as many as beams, best first."""
        wanted = 2 * self.config.n_beams
        found = []
        for path, logits_V in zip(running, rows, strict=True):
            logprobs_V = log_softmax(logits_V[: self._vocab_size])
            logprobs_V[self._banned(len(path.ids))] = -np.inf
            for id in top_k(logprobs_V, wanted) if logprobs_V.max() > -np.inf else ():
                logprob = float(logprobs_V[id])
                found.append(_Path((*path.ids, int(id)), (*path.logprobs, logprob), path.total + logprob, path.slot))
        if not found:
            raise PromptError("The banned ids leave no token.", "Ban fewer ids, or lower min_new_tokens.")
        return sorted(found, key=lambda path: -path.total)[:wanted]  # stable: ties by beam, then id

    def _banned(self, n_new: int) -> list[int]:
        if self._end is None or n_new >= self.config.min_new_tokens:
            return list(self.config.banned_ids)
        return [*self.config.banned_ids, self._end]

    def _advance(self, paths: Sequence[_Path]) -> tuple[list[_Path], list[np.ndarray]]:
        """Lets every path read its newest id, in one step; returns the paths in their new slots, and their logits."""
        moved = self._seat(paths)
        slots, ids = [path.slot for path in moved], [path.ids[-1] for path in moved]
        logits_BV = self._decoder.step(slots, ids)
        for slot, id in zip(slots, ids, strict=True):
            self._held[slot] = np.append(self._held[slot], id)
        return moved, list(logits_BV)

    def _seat(self, paths: Sequence[_Path]) -> list[_Path]:
        """Gives each path a slot of its own that holds all of it but the newest id.

        The first path of a slot keeps it; the others copy from there into slots that nobody keeps.
        """
        keepers = {path.slot: place for place, path in reversed(list(enumerate(paths)))}
        free = [slot for slot in range(self.config.n_beams) if slot not in keepers]
        moved = []
        for place, path in enumerate(paths):
            slot = path.slot
            if keepers[slot] != place:
                slot = free.pop()
                self._copy(path.slot, slot)
            moved.append(_Path(path.ids, path.logprobs, path.total, slot))
        return moved

    def _copy(self, source: int, target: int) -> None:
        self._decoder.truncate(target, common_prefix(self._held[source], self._held[target]))
        self._decoder.copy(source, target, self._held[source].size)
        self._held[target] = self._held[source]

    def _read(self, slot: int, ids_T: np.ndarray) -> np.ndarray:
        logits_V = self._decoder.prefill(slot, ids_T)
        self._held[slot] = ids_T
        return logits_V

    def _has_ended(self, path: _Path) -> bool:
        return path.ids[-1] == self._end or len(path.ids) == self._longest

    def _rank(self, path: _Path) -> float:
        return -path.score(self.config.length_penalty)

    def _is_over(self, running: Sequence[_Path]) -> bool:
        """Whether enough have finished, and the best of those that run will not beat the worst of them."""
        if len(self._finished) < self.config.n_beams:
            return False
        if self.config.early_stopping is True:
            return True
        hopeful = self.config.early_stopping == "never" and self.config.length_penalty > 0
        length = self._longest if hopeful else len(running[0].ids)
        worst = self._finished[-1].score(self.config.length_penalty)
        return running[0].total / length**self.config.length_penalty <= worst

    def _beam(self, path: _Path) -> Beam:
        ended = path.ids[-1] == self._end
        reason: FinishReason = "stop" if ended else "length"
        generation = Generation(
            text=self._text(path.ids[:-1] if ended else path.ids),
            ids=path.ids,
            logprobs=path.logprobs,
            finish_reason=reason,
            prompt_ids=tuple(self._prompt_T.tolist()),
        )
        return Beam(generation=generation, score=path.score(self.config.length_penalty))

    def _text(self, ids: Sequence[int]) -> str:
        if self._tokenizer is None:
            return ""
        stream = self._tokenizer.stream(self._prompt_T)
        return "".join([*map(stream.push, ids), stream.flush()])
