"""One prompt being continued: what it has read and written, what the model must read next, how it ends.

Knows no decoder: `batch` asks it for the ids to read and hands it logits. Streaming, batches and the server all drive
this one state machine, so they cannot differ.
Axes: T ids, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int64

from nextok.decode.config import SamplingConfig
from nextok.decode.explain import Explanation, explain_draw
from nextok.decode.logprobs import token_logprob, top_logprobs
from nextok.decode.protocol import TextSource
from nextok.decode.sampling import Ids, check_vocabulary, distribution, draw
from nextok.decode.stop import StopText
from nextok.errors import ConfigError, PromptError
from nextok.rng import uniform
from nextok.tokenizer import TextStream

FinishReason = Literal["stop", "length"]
"""`stop`: end of text or a stop text; `length`: no more tokens wanted, or no room for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One token drawn."""

    id: int
    """The token."""
    text: str
    """Text that this token released, often "": an open character or the possible beginning of a stop text is held."""
    logprob: float
    """Of the token in the raw distribution, nats."""
    top_logprobs: tuple[tuple[int, float], ...] = ()
    """The likeliest ids of the raw distribution with their log-probabilities, best first, as many as asked for."""
    finish_reason: FinishReason | None = None
    """Set on the last event alone."""
    explanation: Explanation | None = None
    """Where asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A finished continuation."""

    text: str
    """The new text, without the prompt, the stop text and end of text."""
    ids: tuple[int, ...]
    """Every token drawn, those of the stop text and end of text included."""
    logprobs: tuple[float, ...]
    """Of each id in the raw distribution, nats."""
    finish_reason: FinishReason
    """Why it ended."""
    prompt_ids: tuple[int, ...]
    """Exactly the ids that the model was given; nothing is added to them unseen."""
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    """For each id what `Event.top_logprobs` holds."""


class Continuation:
    """One choice for one prompt, on its way.

    Args:
        prompt_ids: Ids of the prompt; where empty, it starts from end of text.
        config: The options.
        tokenizer: Makes the text; without one the text is "" and nothing is known of end of text.
        context: Most ids that the model can hold.
        vocab_size: V of the model.
        choice: Which of the prompt's continuations this is, from 0.
        explain: Put an explanation in every event.

    Raises:
        PromptError: if the prompt cannot be served.
        ConfigError: if an option does not fit the vocabulary, or stop texts come without a tokenizer.
    """

    def __init__(
        self,
        prompt_ids: Ids,
        config: SamplingConfig,
        tokenizer: TextSource | None,
        *,
        context: int,
        vocab_size: int,
        choice: int = 0,
        explain: bool = False,
    ) -> None:
        if config.stop and tokenizer is None:
            raise ConfigError(f"stop = {config.stop!r} needs a tokenizer.", "Hand one in, or leave stop empty.")
        self.config, self.choice, self._context, self._explain = config, choice, context, explain
        # Ids beyond the tokenizer's have no text: rows that round the vocabulary up to a multiple of 64 or 128.
        self._vocab_size = vocab_size if tokenizer is None else min(vocab_size, tokenizer.vocab_size)
        end = None if tokenizer is None else tokenizer.end_of_text
        self._end = end if end is not None and end < self._vocab_size else None
        check_vocabulary(config, self._vocab_size)
        self._ids = check_prompt(prompt_ids, self._vocab_size, self._end)
        self._n_prompt = self._n_ids = self._ids.size
        self._check_room()
        self._stream: TextStream = _NoText() if tokenizer is None else tokenizer.stream()
        self._stops = StopText(config.stop)
        self._events: list[Event] = []
        self.finish_reason: FinishReason | None = None if config.max_new_tokens else "length"
        """Why it ended, None while it goes on."""

    @property
    def last_id(self) -> int:
        """The newest id, which the model has not read yet once the prompt is read."""
        return int(self._ids[self._n_ids - 1])

    def window(self, n_read: int) -> Int64[np.ndarray, " T"] | None:
        """Returns the ids that an emptied slot must read next, or None where it goes on with `last_id` alone.

        Args:
            n_read: How many ids the slot holds.
        """
        if n_read == 0:
            size = self._context
        elif n_read < self._context:
            return None
        else:
            # Learned positions cannot be shifted in a cache: what stays is read again, from position 0.
            size = self._context if self.config.overflow == "slide" else max(1, self._context // 2)
        return self._ids[max(0, self._n_ids - size) : self._n_ids]

    def accept(self, logits_V: Float[np.ndarray, " V"], n_read: int) -> Event:
        """Draws the next token and returns it with the text it releases.

        Args:
            logits_V: The model's logits after the newest id.
            n_read: How many of the newest ids they come from.

        Raises:
            PromptError: if the bans leave no id.
            NonFiniteError: if the logits are not a distribution.
        """
        assert self.finish_reason is None, "a finished continuation takes no more logits"
        legal_V = logits_V[: self._vocab_size]
        id, explanation = self._choose(legal_V, n_read)
        self._append(id)
        text = self._advance_text(id)
        event = Event(
            id=id,
            text=text,
            logprob=token_logprob(legal_V, id),
            top_logprobs=top_logprobs(legal_V, self.config.top_logprobs),
            finish_reason=self.finish_reason,
            explanation=explanation,
        )
        self._events.append(event)
        return event

    def generation(self) -> Generation:
        """Returns all of it, once it has ended."""
        assert self.finish_reason is not None, "this continuation has not ended"
        return Generation(
            text="".join(event.text for event in self._events),
            ids=tuple(event.id for event in self._events),
            logprobs=tuple(event.logprob for event in self._events),
            finish_reason=self.finish_reason,
            prompt_ids=tuple(self._ids[: self._n_prompt].tolist()),
            top_logprobs=tuple(event.top_logprobs for event in self._events) if self.config.top_logprobs else (),
        )

    def _choose(self, legal_V: np.ndarray, n_read: int) -> tuple[int, Explanation | None]:
        prompt, output = self._ids[: self._n_prompt], self._ids[self._n_prompt : self._n_ids]
        too_early = output.size < self.config.min_new_tokens and not self.config.ignore_end
        banned = [self._end] if self._end is not None and too_early else []
        kept = distribution(legal_V, self.config, prompt, output, banned_ids=banned, explain=self._explain)
        number = uniform(self.config.seed, "sample", self.choice, self._n_ids)
        id = draw(kept, number)
        if not self._explain:
            return id, None
        context_ids = self._ids[self._n_ids - n_read : self._n_ids].tolist()
        used = number if self.config.temperature else None
        return id, explain_draw(legal_V, kept, id=id, uniform=used, position=self._n_ids, context_ids=context_ids)

    def _append(self, id: int) -> None:
        if self._n_ids == self._ids.size:
            self._ids = np.resize(self._ids, 2 * self._n_ids)
        self._ids[self._n_ids] = id
        self._n_ids += 1

    def _advance_text(self, id: int) -> str:
        """Takes the newest id into the text, decides whether it was the last, and returns the text released."""
        n_new = self._n_ids - self._n_prompt
        ended = id == self._end and not self.config.ignore_end
        full = n_new == self.config.max_new_tokens or (self.config.overflow == "stop" and self._n_ids == self._context)
        text = "" if ended else self._release(self._stream.push(id), n_new)
        if self._stops.found is None and (ended or full):
            text += self._release(self._stream.flush(), n_new) + self._stops.flush()
        if ended or self._stops.found is not None:
            self.finish_reason = "stop"
        elif full:
            self.finish_reason = "length"
        return text

    def _release(self, piece: str, n_new: int) -> str:
        return piece if n_new < self.config.min_new_tokens else self._stops.push(piece)

    def _check_room(self) -> None:
        wanted = self.config.max_new_tokens
        if self.config.overflow != "stop" or self._n_ids + min(1, wanted) <= self._context:
            return
        too_long = self._n_ids > self._context
        trouble = "so it cannot be read whole" if too_long else f"which leaves no room for {wanted} new ones"
        raise PromptError(
            f"The prompt has {self._n_ids} tokens and the model's context holds {self._context}, {trouble}.",
            "Shorten the prompt, or let old tokens go with --overflow slide.",
        )


class _NoText:
    """The text of a continuation without a tokenizer."""

    def push(self, token_id: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


def check_prompt(prompt_ids: Ids, vocab_size: int, end_of_text: int | None) -> Int64[np.ndarray, " T"]:
    """Returns the prompt as an array of its own; an empty one becomes end of text.

    Raises:
        PromptError: for an id that is no whole number of the vocabulary, or for an empty prompt without end of text.
    """
    try:
        ids = np.asarray(prompt_ids)
    except ValueError as error:  # lists of different lengths
        raise PromptError("A prompt is one list of whole numbers, not a list of lists.") from error
    if ids.size == 0 and end_of_text is not None:
        return np.array([end_of_text], dtype=np.int64)
    if ids.size == 0:
        hint = "Give a prompt of at least one token."
        raise PromptError("The prompt is empty, and this vocabulary has no end of text to start from.", hint)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise PromptError(f"A prompt is one list of whole numbers, not {ids.dtype} of shape {ids.shape}.")
    strangers = np.flatnonzero((ids < 0) | (ids >= vocab_size))
    if strangers.size:
        where = int(strangers[0])
        message = (
            f"The prompt has the id {ids[where]} at position {where}; the vocabulary has ids 0 to {vocab_size - 1}."
        )
        raise PromptError(message, "Encode the prompt with this model's tokenizer.")
    return ids.astype(np.int64)
