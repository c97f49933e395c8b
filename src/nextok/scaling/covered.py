"""Where the runs behind a rule lie, and how far outside of them a question is."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from nextok.errors import InputError
from nextok.spec import Counts

Counting = Literal["total", "matmul", "non-embedding"]
"""What N counts: every trained number; the weights of matrix products, that is blocks and head; all but the tables."""
COUNTINGS: tuple[Counting, ...] = get_args(Counting)


def counted(counts: Counts, counting: Counting) -> int:
    """Returns the N of a model under this way of counting."""
    by_name: dict[Counting, int] = {
        "total": counts.parameters,
        "matmul": counts.matmul_parameters,
        "non-embedding": counts.non_embedding_parameters,
    }
    return by_name[counting]


@dataclass(frozen=True, kw_only=True, slots=True)
class Covered:
    """The smallest and largest N, D and C among the runs a rule was fitted to; None where the source does not say."""

    N: tuple[float, float] | None = None
    """Parameters."""
    D: tuple[float, float] | None = None
    """Training tokens."""
    C: tuple[float, float] | None = None
    """Training operations, FLOP."""

    def __post_init__(self) -> None:
        for name in ("N", "D", "C"):
            bounds = getattr(self, name)
            if bounds is not None and not (0 < bounds[0] <= bounds[1] < math.inf):
                raise InputError(f"The range of {name}, {bounds[0]} to {bounds[1]}, is not a range above 0.")

    def decades_outside(self, *, N: float, D: float, C: float) -> float:
        """Returns the decades between this point and the nearest run, the farthest of N, D and C; 0 inside."""
        pairs = ((self.N, N), (self.D, D), (self.C, C))
        return max((_decades(bounds, value) for bounds, value in pairs if bounds is not None), default=0.0)


def _decades(bounds: tuple[float, float], value: float) -> float:
    low, high = bounds
    return max(0.0, math.log10(low / value), math.log10(value / high))
