"""Intervals for differences: between two models on the same text, and between two kinds of runs over their seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Where a difference lies, with a confidence."""

    difference: float
    """The estimate."""
    low: float
    high: float
    level: float
    """Confidence, in (0, 1)."""
    n: int
    """Pairs, or values of both sides, that it rests on."""

    @property
    def excludes_zero(self) -> bool:
        """Whether the difference is more than noise, at this level."""
        return self.low > 0 or self.high < 0


def paired_interval(
    a_nats_G: Float[np.ndarray, " G"],
    b_nats_G: Float[np.ndarray, " G"],
    tokens_G: Int[np.ndarray, " G"],
    *,
    level: float = 0.95,
) -> Interval | None:
    """Returns the interval of B's loss per token less A's, from their sums over the same pieces of text.

    Student's t over the pieces, as a ratio, so that a shorter last piece counts for what it is; with equal pieces this
    is the paired t interval. Pieces should be long beside what makes neighbouring tokens alike. None with fewer than
    two pieces.
    """
    pieces = len(tokens_G)
    if pieces < 2:
        return None
    apart_G = b_nats_G - a_nats_G
    difference = float(apart_G.sum() / tokens_G.sum())
    residuals_G = apart_G - difference * tokens_G
    error = math.sqrt(pieces / (pieces - 1) * float((residuals_G**2).sum())) / float(tokens_G.sum())
    return _interval(difference, error, pieces - 1, level, pieces)


def unpaired_interval(a: Sequence[float], b: Sequence[float], *, level: float = 0.95) -> Interval | None:
    """Returns the interval of the mean of B less that of A, by the scatter of each.

    Welch's t interval; where one side has a single value, Student's, which takes the scatter of the other side for
    both. None where neither side scatters: each has one value.
    """
    n_a, n_b = len(a), len(b)
    if n_a < 1 or n_b < 1 or n_a + n_b < 3:
        return None
    difference = float(np.mean(b) - np.mean(a))
    if min(n_a, n_b) == 1:
        several = a if n_a > 1 else b
        error = float(np.std(several, ddof=1)) * math.sqrt(1 / n_a + 1 / n_b)
        return _interval(difference, error, n_a + n_b - 2, level, n_a + n_b)
    part_a, part_b = float(np.var(a, ddof=1)) / n_a, float(np.var(b, ddof=1)) / n_b
    spread = part_a + part_b
    freedom = spread**2 / (part_a**2 / (n_a - 1) + part_b**2 / (n_b - 1)) if spread else float(n_a + n_b - 2)
    return _interval(difference, math.sqrt(spread), freedom, level, n_a + n_b)


def _interval(difference: float, error: float, freedom: float, level: float, n: int) -> Interval:
    reach = float(stdtrit(freedom, (1 + level) / 2)) * error
    return Interval(difference=difference, low=difference - reach, high=difference + reach, level=level, n=n)
