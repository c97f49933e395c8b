"""A law fitted to runs of your own, as a file: what `nextok fit` writes, and what plans and predictions read.

```json
{
  "schema": 1,
  "law": {"E": 1.82, "A": 478.0, "B": 2143.0, "alpha": 0.347, "beta": 0.367},
  "a": 0.51401,
  "objective": 0.0010183,
  "noise": 0.005,
  "noise_source": "residuals",
  "level": 0.8,
  "intervals": {
    "E": [1.78, 1.85], "A": [330, 650], "B": [1300, 4400], "alpha": [0.33, 0.37], "beta": [0.34, 0.4], "a": [0.49, 0.54]
  },
  "draws": [[1.81, 470.1, 2100.0, 0.346, 0.366]],
  "covered": {"N": [5.7e7, 1.6e10], "D": [2.4e8, 3.2e11], "C": [1.4e18, 1.3e22]},
  "counting": "total",
  "loss_unit": "nats/token",
  "runs": 240,
  "corpus": "",
  "tokenizer": ""
}
```

The constants hang together so tightly that five intervals say little of N* or of a loss. `draws` therefore keeps the
whole bootstrap, one refitted (E, A, B, alpha, beta) a line; every interval of a plan is read off them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nextok import config as options
from nextok.errors import InputError
from nextok.files import read_json, write_json
from nextok.scaling.covered import Counting, Covered
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.noise import NoiseSource

SCHEMA = 1
Draw = tuple[float, float, float, float, float]
"""E, A, B, alpha, beta of one resample."""
LossUnit = Literal["nats/token", "bits/byte"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstantIntervals:
    """Low and high of each constant by itself, for people to read."""

    E: tuple[float, float]
    A: tuple[float, float]
    B: tuple[float, float]
    alpha: tuple[float, float]
    beta: tuple[float, float]
    a: tuple[float, float] | None = None
    """Of the exponent of N* in C."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedLaw:
    """The law of L(N, D) that a set of runs follows, with what it was fitted to."""

    law: ParametricLaw
    """The best fit."""
    covered: Covered
    """Smallest and largest N, D and C of the runs; this C is 6 N D too, with N as counted here."""
    counting: Counting
    """What N counts."""
    loss_unit: LossUnit = "nats/token"
    """Unit of E and of every loss."""
    runs: int
    """Runs the law was fitted to; at least 1."""
    a: float | None = None
    """Exponent of N* in C, beta / (alpha + beta), for people to read; checked against the constants."""
    objective: float | None = None
    """Sum of Huber's losses at the best fit; at least 0."""
    noise: float | None = None
    """Standard deviation of log loss between runs that differ in their seed alone; at least 0."""
    noise_source: NoiseSource | None = None
    """Whether `noise` is of repeated seeds, or of what the fit leaves over."""
    intervals: ConstantIntervals | None = None
    """Of the constants, at `level`; None where there was no bootstrap."""
    level: float = 0.8
    """Share of the resamples that `intervals` hold; in (0, 1). Source: 80 % in Hoffmann et al. 2022."""
    draws: tuple[Draw, ...] = ()
    """The constants of every resample; empty where there was no bootstrap."""
    corpus: str = ""
    """Where the text came from, and its fingerprint if known."""
    tokenizer: str = ""
    """Fingerprint or name of the tokenizer; losses of different tokenizers cannot be compared in nats a token."""
    schema: int = SCHEMA
    """Version of this form."""

    def __post_init__(self) -> None:
        _require(self.schema == SCHEMA, f"its schema is {self.schema}, and this version reads {SCHEMA}.")
        _require(self.runs >= 1, f"runs = {self.runs} is below 1.")
        _require(
            self.a is None or abs(self.a - self.law.a) < 1e-4, f"a = {self.a}, and its constants give {self.law.a}."
        )
        for name in ("objective", "noise"):
            value = getattr(self, name)
            _require(value is None or 0 <= value < math.inf, f"{name} = {value} is not at least 0.")
        _require(0 < self.level < 1, f"level = {self.level} is not in (0, 1).")
        for draw in self.draws:
            law_of(draw)

    def interval(self, of: Callable[[ParametricLaw], float], level: float = 0.8) -> tuple[float, float] | None:
        """Returns the middle share of a quantity over all resamples, or None where there were none.

        Args:
            of: The quantity, from a law.
            level: The share; in (0, 1).
        """
        if not self.draws:
            return None
        values = np.array([of(law_of(draw)) for draw in self.draws], np.float64)
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def to_mapping(self) -> dict[str, Any]:
        """Returns the plain values that the file holds."""
        return options.to_mapping(self)

    def write(self, path: Path) -> None:
        """Writes the file atomically.

        Raises:
            DiskError: if it cannot be written.
        """
        write_json(path, self.to_mapping())


def law_of(draw: Draw) -> ParametricLaw:
    """Returns the law with these constants."""
    E, A, B, alpha, beta = draw
    return ParametricLaw(E=E, A=A, B=B, alpha=alpha, beta=beta)


def read_fitted_law(path: Path) -> FittedLaw:
    """Returns the law in a file that `nextok fit` wrote.

    Raises:
        InputError: if the file is missing, is not strict JSON, or does not hold exactly such a law.
    """
    values = read_json(path)
    try:
        return options.from_mapping(FittedLaw, values, "fit")
    except InputError as error:
        hint = "Write it with nextok fit."
        raise InputError(f"{path} does not hold a fitted law: {error.message}", error.hint or hint) from error


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise InputError(f"This fit cannot be used: {message}")
