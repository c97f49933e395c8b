"""One prompt being continued: what it has read and written, what the model must read next, how it ends.

Knows no decoder: `batch` asks it for the ids to read and hands it logits. Streaming, batches and the server all drive
this one state machine, so they cannot differ.
Axes: T ids, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int64

from nextok.decode.chooser import Choice, Chooser
from nextok.decode.config import SamplingConfig
from nextok.decode.constraint import Constraint
from nextok.decode.explain import Explanation, explain_draw
from nextok.decode.grammar import grammar_constraint
from nextok.decode.logprobs import token_logprob, top_logprobs
from nextok.decode.protocol import TextSource
from nextok.decode.sampling import Ids, check_vocabulary
from nextok.decode.stop import StopText
from nextok.errors import ConfigError, PromptError
from nextok.tokenizer import TextStream

FinishReason = Literal["stop", "length"]
"""`stop`: end of text, a stop, or a grammar fulfilled; `length`: no more tokens wanted, or no room for one."""


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
        constraint: What the new text must follow, in its first state and nobody else's. Default: the grammar of the
            options, if there is one.

    Raises:
        PromptError: if the prompt cannot be served.
        ConfigError: if an option does not fit the vocabulary, or stop texts or a grammar come without a tokenizer.
        MissingExtraError: if the options have a grammar and llguidance is not installed.
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
        constraint: Constraint | None = None,
    ) -> None:
        _check_tokenizer(config, tokenizer)
        self.config, self.choice, self._context, self._explain = config, choice, context, explain
        # Ids beyond the tokenizer's have no text: rows that round the vocabulary up to a multiple of 64 or 128.
        vocab_size = vocab_size if tokenizer is None else min(vocab_size, tokenizer.vocab_size)
        end = None if tokenizer is None else tokenizer.end_of_text
        end = end if end is not None and end < vocab_size else None
        check_vocabulary(config, vocab_size)
        prompt_T = check_prompt(prompt_ids, vocab_size, end)
        self._check_room(prompt_T.size)
        if constraint is None and (config.regex or config.json_schema):
            constraint = grammar_constraint(tokenizer, regex=config.regex, json_schema=config.json_schema)
        self.chooser = Chooser(prompt_T, config, vocab_size=vocab_size, end=end, choice=choice, constraint=constraint)
        """The ids so far, and the rules by which the next one is chosen. `accept` alone appends to it."""
        self._stream: TextStream = _NoText() if tokenizer is None else tokenizer.stream(prompt_T)
        self._stops = StopText(config.stop)
        self._events: list[Event] = []
        self.finish_reason: FinishReason | None = None if config.max_new_tokens else "length"
        """Why it ended, None while it goes on."""
        if self.finish_reason is None and self.chooser.is_done:  # a grammar that matches nothing but the empty text
            self.finish_reason = "stop"

    @property
    def ids(self) -> Int64[np.ndarray, " T"]:
        """All ids so far, those of the prompt first: a view, not to be written to."""
        return self.chooser.ids

    @property
    def last_id(self) -> int:
        """The newest id, which the model has not read yet once the prompt is read."""
        return int(self.ids[-1])

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
        return self.ids[-size:]

    def accept(self, logits_V: Float[np.ndarray, " V"], n_read: int) -> Event:
        """Draws the next token and returns it with the text it releases.

        Args:
            logits_V: The model's logits after the newest id.
            n_read: How many of the newest ids they come from.

        Raises:
            PromptError: if bans and constraint leave no id.
            NonFiniteError: if the logits are not a distribution.
        """
        assert self.finish_reason is None, "a finished continuation takes no more logits"
        legal_V = logits_V[: self.chooser.vocab_size]
        choice = self.chooser.choose(legal_V, explain=self._explain)
        explanation = self._explanation(choice, legal_V, n_read) if self._explain else None
        id, ended = choice.id, self.chooser.append(choice.id)
        text = self._advance_text(id, ended=ended)
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
            prompt_ids=tuple(self.ids[: self.chooser.n_prompt].tolist()),
            top_logprobs=tuple(event.top_logprobs for event in self._events) if self.config.top_logprobs else (),
        )

    def _explanation(self, choice: Choice, legal_V: np.ndarray, n_read: int) -> Explanation:
        return explain_draw(
            legal_V,
            choice.kept,
            id=choice.id,
            uniform=choice.uniform if self.config.temperature else None,
            position=self.ids.size,
            context_ids=self.ids[-n_read:].tolist(),
        )

    def _advance_text(self, id: int, *, ended: bool) -> str:
        """Takes the newest id into the text, decides whether it was the last, and returns the text released.

        Args:
            id: The newest id.
            ended: Whether it ends the text and is no part of it.
        """
        text = "" if ended else self._release(self._stream.push(id))
        ended = ended or self.chooser.is_done
        n_new = self.chooser.n_new
        full = n_new == self.config.max_new_tokens or (
            self.config.overflow == "stop" and self.ids.size == self._context
        )
        if self._stops.found is None and (ended or full):
            text += self._release(self._stream.flush()) + self._stops.flush()
        if ended or self._stops.found is not None:
            self.finish_reason = "stop"
        elif full:
            self.finish_reason = "length"
        return text

    def _release(self, piece: str) -> str:
        return piece if self.chooser.n_new < self.config.min_new_tokens else self._stops.push(piece)

    def _check_room(self, n_prompt: int) -> None:
        wanted = self.config.max_new_tokens
        if self.config.overflow != "stop" or n_prompt + min(1, wanted) <= self._context:
            return
        too_long = n_prompt > self._context
        trouble = "so it cannot be read whole" if too_long else f"which leaves no room for {wanted} new ones"
        raise PromptError(
            f"The prompt has {n_prompt} tokens and the model's context holds {self._context}, {trouble}.",
            "Shorten the prompt, or let old tokens go with --overflow slide.",
        )


def _check_tokenizer(config: SamplingConfig, tokenizer: TextSource | None) -> None:
    for name in ("stop", "regex", "json_schema"):
        if getattr(config, name) and tokenizer is None:
            raise ConfigError(
                f"{name} = {getattr(config, name)!r} needs a tokenizer.", f"Hand one in, or leave {name} empty."
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
