"""Which sizes, lengths and budgets count as one: tables hold 1.999e20 and 2.003e20, and mean one budget."""

import numpy as np
from jaxtyping import Float, Int

SAME = 0.02
"""Values of which each is this near to the next, in log, are one."""


def same_size(values_R: Float[np.ndarray, " R"]) -> Int[np.ndarray, " R"]:
    """Returns the group of each value, numbered from the smallest; neighbours within 2 % are of one group."""
    order_R = np.argsort(values_R, kind="stable")
    logs_R = np.log(values_R[order_R])
    group_R = np.empty(len(values_R), np.int64)
    group_R[order_R] = np.concatenate([[0], np.cumsum(np.diff(logs_R) > SAME)])
    return group_R


def windows(values_R: Float[np.ndarray, " R"], width: float, fewest: int) -> list[Int[np.ndarray, " M"]]:
    """Returns the fullest windows of this width in log, and no value twice; from the smallest values up.

    Args:
        values_R: Such as the compute of each run.
        width: Of a window, in log.
        fewest: A window with fewer values is left out.
    """
    left = np.argsort(values_R, kind="stable")
    found = []
    while len(left) >= fewest:
        logs = np.log(values_R[left])
        ends = np.searchsorted(logs, logs + width, side="right")
        first = int(np.argmax(ends - np.arange(len(left))))
        inside = left[first : ends[first]]
        if len(inside) < fewest:
            break
        found.append(inside)
        left = np.delete(left, np.s_[first : ends[first]])
    return sorted(found, key=lambda inside: float(values_R[inside].min()))
