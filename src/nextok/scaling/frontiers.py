"""Rules that split a budget: each gives the N and D of one C, and the C of one N or D.

All of them spend C = 6 N D. The D of a rule is what its own N leaves of C; no N is paired with another rule's D.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nextok.errors import InputError
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN


class Frontier(Protocol):
    """What every rule can be asked. `ParametricLaw` is one."""

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of this C."""
        ...

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C that goes with this N."""
        ...

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C that goes with this D."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """D = ratio N, hence C = 6 ratio N^2, N* = sqrt(C / (6 ratio)) and D* = ratio N*."""

    ratio: float
    """Tokens a parameter; above 0."""

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of this C."""
        N = math.sqrt(_positive("C", C) / (FLOPS_PER_PARAMETER_AND_TOKEN * self.ratio))
        return N, self.ratio * N

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C that goes with this N."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.ratio * _positive("N", N) ** 2

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C that goes with this D."""
        return self.compute_for_parameters(_positive("D", D) / self.ratio)


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """N = scale (C / unit)^a."""

    scale: float
    """N at C = unit; above 0."""
    unit: float
    """FLOP; above 0."""
    a: float
    """Exponent; in (0, 1)."""

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of this C."""
        N = self.scale * (_positive("C", C) / self.unit) ** self.a
        return N, C / (FLOPS_PER_PARAMETER_AND_TOKEN * N)

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C that goes with this N."""
        return self.unit * (_positive("N", N) / self.scale) ** (1 / self.a)

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C that goes with this D: D = unit^a C^(1 - a) / (6 scale)."""
        at_unit = self.unit / (FLOPS_PER_PARAMETER_AND_TOKEN * self.scale)
        return self.unit * (_positive("D", D) / at_unit) ** (1 / (1 - self.a))


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """N over C as a printed table has it: straight lines between its rows in log C and log N, and on beyond its ends.

    The tokens printed beside them are not used: they are rounded to two digits and would not spend C with the N.
    """

    rows: tuple[tuple[float, float], ...]
    """(N, C) of each row, both rising; at least two."""

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of this C."""
        N = self._at(lambda n, c: (c, n), _positive("C", C))
        return N, C / (FLOPS_PER_PARAMETER_AND_TOKEN * N)

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C that goes with this N."""
        return self._at(lambda n, c: (n, c), _positive("N", N))

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C that goes with this D."""
        return self._at(lambda n, c: (c / (FLOPS_PER_PARAMETER_AND_TOKEN * n), c), _positive("D", D))

    def _at(self, pair: Callable[[float, float], tuple[float, float]], x: float) -> float:
        points = [tuple(math.log(value) for value in pair(n, c)) for n, c in self.rows]
        # the row above x, but never the first and never past the last: outside, the end's own line goes on
        above = min(max(bisect.bisect([row[0] for row in points], math.log(x)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[above - 1], points[above]
        return math.exp(y0 + (y1 - y0) * (math.log(x) - x0) / (x1 - x0))


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise InputError(f"{name} = {value} is not above 0.")
    return value
