"""What every engine is to the check: a name, the format it reads, its rules, and a function that lets it write."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from nextok.conversion.convert import Format
from nextok.conversion.engines.findings import Finding
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

Rules = Callable[[ModelConfig, Tokenizer | None], list[Finding]]


class Prompt(TypedDict):
    """A prompt for an engine, which reads the text itself where there is a tokenizer."""

    text: str | None
    ids: list[int]


class Request(TypedDict):
    """What is asked of an engine; plain values, because it runs in a process of its own."""

    path: str
    prompts: list[Prompt]
    new_tokens: int
    context: int


class Answer(TypedDict):
    """What an engine wrote after one prompt."""

    prompt_tokens: int
    """How many tokens it made of the prompt."""
    ids: list[int]
    """What it chose, greedily; fewer than asked for where it met the end of text."""
    logprobs: list[float]
    """The natural logarithm of the probability it gave each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A program that runs exported models."""

    name: str
    """As written after `--check`."""
    modules: tuple[str, ...]
    """The Python modules it needs, each in a package of the same name."""
    format: Format
    """What it reads: a directory of transformers, or a GGUF file."""
    rules: Rules
    """What it does with a model, without starting it."""
    answer: str
    """`module:function` from a `Request` to a list of `Answer`, called in a process of its own."""
    tolerance: float = 1e-3
    """Most nats that a log-probability may differ by with float32 weights; roundings are a thousand times smaller."""
