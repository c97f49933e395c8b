"""What a run tells its hooks, and what a hook may ask for in return.

A hook gets one event and returns a request or nothing. Hooks see records, never the trainer, so none can change what
is learned.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDone:
    """One optimizer step has been taken."""

    step: int
    """Steps done, this one included."""
    steps: int
    """Steps of the whole run."""
    train_loss: float
    """Mean over the batch, in nats per token, before the step."""
    grad_norm: float = math.nan
    """Norm of the whole gradient before clipping."""
    skipped: bool = False
    """The batch gave NaN or infinity and changed nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logged:
    """A line for metrics.jsonl: names and numbers of this step, those that apply."""

    record: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A checkpoint is on disk."""

    step: int
    folder: Path
    best: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """The model wrote something."""

    step: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """Something the user should know: a plan, a warning, a fallback."""

    text: str
    warning: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something about the course of a run that its user can mend; told once, and kept in findings.jsonl."""

    step: int
    """Where it was seen."""
    kind: str
    """What it is, in one word: the same word is not told twice in a run."""
    text: str
    """What was seen, with its numbers, in one sentence."""
    advice: str
    """What to change, with a value."""


Event = StepDone | Logged | Saved | Sampled | Message | Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a hook asks of the run; requests of several hooks add up."""

    stop: bool = False
    """Save after this step and end the run."""
    reasons: tuple[str, ...] = field(default=())
    """Why, for the last message."""
    tell: tuple[Message | Finding, ...] = field(default=())
    """What all hooks should hear after this event; a hook must not answer what it is told so with more of it."""

    def __or__(self, other: "Request") -> "Request":
        return Request(stop=self.stop or other.stop, reasons=self.reasons + other.reasons, tell=self.tell + other.tell)


Hook = Callable[[Event], Request | None]


def emit(event: Event, hooks: Sequence[Hook]) -> Request:
    """Returns what the hooks, in their order, ask for; what they want told, all of them have heard by then."""
    request = Request()
    for hook in hooks:
        request |= hook(event) or Request()
    news, request = request.tell, replace(request, tell=())
    for each in news:
        request |= emit(each, hooks)
    return request
