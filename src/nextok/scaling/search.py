"""The lowest point and the root of a function of one variable, for what has no closed form here.

scipy has better ones and takes half a second to load; these functions cost microseconds and the plan calls few of them.
"""

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 200  # golden steps shrink a bracket by 0.618, bisection by 0.5: both end at the last bit long before


def lowest(f: Callable[[float], float], low: float, high: float) -> float:
    """Returns where f is lowest in [low, high], for an f that falls and then rises; golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = f(left), f(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = f(right)
        if not low < left < right < high:
            break
    return (low + high) / 2


def crossing(f: Callable[[float], float], low: float, high: float) -> float:
    """Returns where f passes 0 in [low, high], for an f that rises; the nearer end where it does not; bisection."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return (low + high) / 2
