"""How far a preparation is, told while its items stream by. Showing it is the caller's."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")

Stage = Literal["scan", "tokenizer", "encode"]

REPORT_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareProgress:
    """How far the preparation is; rate and time left follow from the numbers of one stage."""

    stage: Stage
    """Reading for the first time, training the tokenizer (only for bpe), or encoding."""
    bytes_done: int
    """Bytes of this stage that are done: on disk for reading and encoding, of text for the tokenizer."""
    bytes_total: int
    """Bytes of this stage."""
    seconds: float
    """Time since the stage began."""


OnProgress = Callable[[PrepareProgress], None]


def watched(
    items: Iterable[T], stage: Stage, bytes_done: Callable[[T], int], bytes_total: int, on_progress: OnProgress | None
) -> Iterator[T]:
    """Yields the items and reports about ten times a second, and once at the end.

    Args:
        items: What passes by.
        stage: Name for the reports.
        bytes_done: Gives the bytes of this stage that are done after an item.
        bytes_total: Bytes of this stage.
        on_progress: Called with each report; None for silence.
    """
    started = reported = time.perf_counter()
    for item in items:
        yield item
        done, now = bytes_done(item), time.perf_counter()
        if on_progress is not None and now - reported >= REPORT_EVERY_S:
            reported = now
            on_progress(PrepareProgress(stage=stage, bytes_done=done, bytes_total=bytes_total, seconds=now - started))
    if on_progress is not None:
        seconds = time.perf_counter() - started
        on_progress(PrepareProgress(stage=stage, bytes_done=bytes_total, bytes_total=bytes_total, seconds=seconds))
