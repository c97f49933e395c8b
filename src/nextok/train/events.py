"""What a run tells its hooks, and what a hook may ask for in return.

A hook gets one event and returns a request or nothing. Hooks see records, never the trainer, so none can change what
is learned.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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


Event = StepDone | Logged | Saved | Sampled | Message


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a hook asks of the run; requests of several hooks add up."""

    stop: bool = False
    """Save after this step and end the run."""
    reasons: tuple[str, ...] = field(default=())
    """Why, for the last message."""

    def __or__(self, other: "Request") -> "Request":
        return Request(stop=self.stop or other.stop, reasons=self.reasons + other.reasons)


Hook = Callable[[Event], Request | None]


def emit(event: Event, hooks: Iterable[Hook]) -> Request:
    """Returns what the hooks, in their order, ask for after this event."""
    request = Request()
    for hook in hooks:
        request |= hook(event) or Request()
    return request
