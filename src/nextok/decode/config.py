"""How the next token is chosen and when a continuation ends: the options of every generation."""

import numbers
import sys
from dataclasses import dataclass
from typing import Literal, cast

from nextok.errors import ConfigError

Overflow = Literal["stop", "slide", "half"]
_LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingConfig:
    """The options of one generation, checked when made.

    Raises:
        ConfigError: for a value out of range, NaN and infinity among them, naming the field.
    """

    max_new_tokens: int = 200
    """Most tokens to add, 0 or more; 0 adds nothing, as for scoring a prompt. Default: a paragraph."""
    temperature: float = 0.8
    """Divides the logits, 0 or more; 0 is argmax, ties to the lowest id. Default: nanoGPT's sample.py."""
    top_k: int = 0
    """Keeps this many likeliest tokens, ties to the lowest ids; 0 is off, more than the vocabulary keeps all of it."""
    top_p: float = 1.0
    """Keeps the smallest set of likeliest tokens whose probability reaches this, in (0, 1]; 1 is off."""
    min_p: float = 0.0
    """Keeps tokens at least this fraction as likely as the likeliest, in [0, 1]; 0 is off."""
    repetition_penalty: float = 1.0
    """Makes each id of prompt and output less likely when above 1: divides its logit where positive, multiplies it
    where negative, once per distinct id. Above 0; 1 is off. Source: CTRL 2019, section 4.1, and
    the signs of transformers."""
    frequency_penalty: float = 0.0
    """Nats subtracted from an id's logit for each time the output holds it; 0 is off. Source: the OpenAI API."""
    presence_penalty: float = 0.0
    """Nats subtracted from an id's logit if the output holds it at all; 0 is off. Source: the OpenAI API."""
    stop: tuple[str, ...] = ()
    """Texts that end the continuation and are not part of it."""
    stop_ids: tuple[int, ...] = ()
    """Ids that end the continuation as end of text does: drawn and counted, but without text."""
    ignore_end: bool = False
    """Go on past the end-of-text token, which then is a token like any other. A grammar still ends where it must."""
    min_new_tokens: int = 0
    """Tokens before which neither end of text nor a stop can end it, in 0 .. max_new_tokens."""
    regex: str = ""
    """A regular expression (of Rust's `regex`, without look-around) that the whole text must match; "" is off."""
    json_schema: str = ""
    """A JSON schema, as JSON, that the text must follow; "" is off. On the command line a file name, too."""
    banned_ids: tuple[int, ...] = ()
    """Ids that are never drawn."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs of an id and what is added to its logit, in nats."""
    top_logprobs: int = 0
    """How many of the likeliest ids of the raw distribution to report with each token; 0 is off."""
    seed: int = 0
    """With choice and position, all that a draw depends on. Any whole number."""
    n: int = 1
    """Continuations of each prompt, 1 or more, with independent draws."""
    overflow: Overflow = "stop"
    """When the context is full: `stop` ends, `slide` re-reads the last `context` ids before every token (as the
    lesson's loop does), `half` re-reads the last `context // 2` and goes on."""

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise ConfigError(f"stop = {self.stop!r} is one text.", f"Write a list of texts: ({self.stop!r},).")
        for name in ("stop", "stop_ids", "banned_ids"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "logit_bias", tuple((id, bias) for id, bias in self.logit_bias))
        self._check_counts()
        self._check_numbers()
        self._check_lists()
        self._check_grammar()
        _check(self.overflow in ("stop", "slide", "half"), "overflow", self.overflow, "one of stop, slide, half")

    def _check_counts(self) -> None:
        for name, least in (("max_new_tokens", 0), ("top_k", 0), ("min_new_tokens", 0), ("top_logprobs", 0), ("n", 1)):
            value = getattr(self, name)
            _check(_is_whole(value) and value >= least, name, value, f"a whole number of at least {least}")
        _check(_is_whole(self.seed), "seed", self.seed, "a whole number")
        enough = self.min_new_tokens <= self.max_new_tokens
        _check(enough, "min_new_tokens", self.min_new_tokens, f"at most max_new_tokens ({self.max_new_tokens})")

    def _check_numbers(self) -> None:
        _check(_is_within(self.temperature, 0), "temperature", self.temperature, "a number of at least 0")
        _check(_is_within(self.top_p, 0, 1) and self.top_p > 0, "top_p", self.top_p, "above 0 and at most 1")
        _check(_is_within(self.min_p, 0, 1), "min_p", self.min_p, "in 0 to 1")
        positive = _is_within(self.repetition_penalty, 0) and self.repetition_penalty > 0
        _check(positive, "repetition_penalty", self.repetition_penalty, "a number above 0")
        for name in ("frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            _check(_is_within(value, -_LARGEST), name, value, "a finite number")

    def _check_lists(self) -> None:
        for text in self.stop:
            _check(isinstance(text, str) and text != "", "stop", text, "a text of at least one character")
        for name in ("banned_ids", "stop_ids"):
            for id in getattr(self, name):
                _check(_is_whole(id) and id >= 0, name, id, "an id of at least 0")
        for id, bias in self.logit_bias:
            allowed = _is_whole(id) and id >= 0 and _is_within(bias, -_LARGEST)
            _check(allowed, "logit_bias", (id, bias), "an id of at least 0 with a finite number")

    def _check_grammar(self) -> None:
        for name in ("regex", "json_schema"):
            _check(isinstance(getattr(self, name), str), name, getattr(self, name), "a text")
        if self.regex and self.json_schema:
            raise ConfigError("regex and json_schema are two grammars for one text.", "Give one of them.")


def _check(allowed: bool, name: str, value: object, wanted: str) -> None:  # noqa: FBT001  reads as an assertion
    if not allowed:
        raise ConfigError(f"{name} = {value!r} is not {wanted}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_within(value: object, least: float, most: float = _LARGEST) -> bool:
    # NaN compares false with everything, so it fails here where `value < least or value > most` would let it pass.
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and least <= cast(float, value) <= most
