"""How uncertain the N of a budget is, from what a source tells of its fit. All intervals hold 80 %, as its paper's do.

The D of a budget is C / (6 N), so its interval is the same one turned around.
"""

import math
from dataclasses import dataclass

_Z = 1.2815515655446004  # standard deviations on each side that hold 80 % of a normal distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentSpread:
    """Only the interval of the exponent is known: certain at the middle of the runs, wider with each decade from it."""

    a: float
    """The exponent itself."""
    low: float
    """Its 10th percentile."""
    high: float
    """Its 90th percentile."""
    pivot_flops: float
    """Where N is taken as known: the middle of the runs, FLOP."""

    def interval(self, N: float, C: float) -> tuple[float, float]:
        """Returns the low and high N at this C, where the rule says N."""
        ends = [N * (C / self.pivot_flops) ** (end - self.a) for end in (self.low, self.high)]
        return min(ends), max(ends)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierSpread:
    """ln N at a budget and the exponent as they vary together over refits to resampled runs, taken as normal."""

    pivot_flops: float
    """The budget, FLOP."""
    sd_log_n: float
    """Standard deviation of ln N there."""
    sd_a: float
    """Standard deviation of the exponent."""
    correlation: float
    """Of the two; in (-1, 1)."""

    def interval(self, N: float, C: float) -> tuple[float, float]:
        """Returns the low and high N at this C, where the rule says N."""
        away = math.log(C / self.pivot_flops) * self.sd_a
        sd = math.sqrt(self.sd_log_n**2 + away**2 + 2 * self.correlation * self.sd_log_n * away)
        return N * math.exp(-_Z * sd), N * math.exp(_Z * sd)
