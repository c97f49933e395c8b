"""Torch or the Numba engine: which of them decodes, found out by measuring once and kept for the machine.

The engine is made for the CPU and wins there for every model measured so far; whether it does on the machine at hand,
only a clock can tell.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nextok import machine
from nextok.decode import Decoder
from nextok.engine import kernels
from nextok.errors import NextokError
from nextok.files import read_json, write_json
from nextok.spec import ModelConfig, count

Backend = Literal["auto", "torch", "numba"]
Measured = Literal["torch", "numba"]

_STEPS = 12


def fastest(config: ModelConfig, makers: dict[Measured, Callable[[], Decoder]], record: Path) -> Measured:
    """Returns the backend that decodes a model of this size faster here, and writes it down for the next time.

    Args:
        config: The model.
        makers: What makes a decoder of one slot, by backend; called only if nothing is written down yet.
        record: A JSON file of what was measured before; it is made if needed, and lost without harm.
    """
    key = f"{kernels()}; {machine.usable_cores()} cores; 2^{count(config).parameters.bit_length()} parameters"
    known = _known(record)
    found = known.get(key, {}).get("fastest")
    if found in makers:
        return found
    seconds = {name: _seconds_a_token(make()) for name, make in makers.items()}
    best = min(seconds, key=lambda name: seconds[name])
    entry = {"fastest": best, **{f"{name}_seconds_per_token": value for name, value in seconds.items()}}
    _keep(record, {**known, key: entry})
    return best


def _seconds_a_token(decoder: Decoder) -> float:
    """Returns the median time of a step, after the first ones have compiled and warmed up what they need."""
    decoder.prefill(0, np.zeros(1, np.int64))
    times = []
    for _ in range(_STEPS):
        if decoder.length(0) == decoder.context:
            decoder.truncate(0, 0)
        start = time.perf_counter()
        decoder.step([0], [0])
        times.append(time.perf_counter() - start)
    return statistics.median(times[_STEPS // 3 :])


def _known(record: Path) -> dict[str, Any]:
    try:
        content = read_json(record)
    except NextokError:  # absent, or written by another program: measured again
        return {}
    return (
        {key: value for key, value in content.items() if isinstance(value, dict)} if isinstance(content, dict) else {}
    )


def _keep(record: Path, content: dict[str, Any]) -> None:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, content)
    except (NextokError, OSError):  # a home that cannot be written to: measured again next time
        return
