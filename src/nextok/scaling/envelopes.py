"""The exponent of N* without a law for the loss: approaches 1 and 2 of Hoffmann et al. 2022, where the runs allow them.

Approach 1 takes a curve of loss over compute for each size and asks which size is lowest. Approach 2 takes runs of
one compute and asks at which size their loss is lowest, by a parabola in log N and by an Akima spline. Both then draw a
line through log N* over log C. They check the fit and are no part of it; a parabola is biased where alpha and beta
differ.

Not in the front door of the room: scipy's interpolation takes a third of a second to load.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.interpolate import Akima1DInterpolator

from nextok.scaling.grouping import same_size, windows
from nextok.scaling.runs import Runs

_BUDGET_WIDTH = 0.12  # in log: runs within 13 % of compute are of one budget
_FEWEST_SIZES = 5  # of a budget
_FEWEST_LENGTHS = 3  # of a size
_FEWEST_BUDGETS = 3
_NO_ISOFLOP = f"there are fewer than {_FEWEST_BUDGETS} budgets with a minimum among {_FEWEST_SIZES} sizes or more"
_NO_ENVELOPE = f"fewer than {_FEWEST_BUDGETS} sizes of {_FEWEST_LENGTHS} lengths or more are lowest between two others"
_COMPUTES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Approach:
    """What one approach says of N* over C."""

    name: str
    a: float | None
    """Exponent of N* in C; None where the runs do not allow this approach."""
    standard_error: float | None
    """Of the exponent, from how the minima scatter about the line."""
    minima: tuple[tuple[float, float], ...]
    """C and N* of each budget, or of each size of the envelope."""
    left_out: tuple[str, ...]
    """Budgets without a minimum among their sizes, and why; or why there is no exponent."""


def approaches(runs: Runs) -> tuple[Approach, ...]:
    """Returns approach 1, and approach 2 by parabola and by Akima spline."""
    return envelope(runs), isoflop(runs, akima=False), isoflop(runs, akima=True)


def isoflop(runs: Runs, *, akima: bool) -> Approach:
    """Returns approach 2: the size of least loss at each budget."""
    name = "2: IsoFLOP, Akima" if akima else "2: IsoFLOP, parabola"
    minima, left_out = [], []
    for C, log_N_M, loss_M in _budgets(runs):
        lowest, reason = (_akima_minimum if akima else _parabola_minimum)(log_N_M, loss_M)
        if lowest is None:
            left_out.append(f"C = {C:.3g}: {reason}")
        else:
            minima.append((C, float(np.exp(lowest))))
    return _line(name, minima, left_out, _NO_ISOFLOP)


def envelope(runs: Runs) -> Approach:
    """Returns approach 1: where each size's curve of loss over compute is the lowest of all."""
    curves = list(_size_curves(runs))
    name = "1: envelope"
    if len(curves) < 3:
        return _line(name, [], [], _NO_ENVELOPE)
    lowest, highest = min(curve.low for curve in curves), max(curve.high for curve in curves)
    log_C_K = np.linspace(lowest, highest, _COMPUTES)
    loss_SK = np.stack([curve.at(log_C_K) for curve in curves])
    winner_K = np.where(np.isfinite(loss_SK).any(axis=0), np.argmin(loss_SK, axis=0), -1)
    minima = []
    for place, curve in enumerate(curves[1:-1], start=1):
        won_M = np.flatnonzero(winner_K == place)
        between_M = np.isfinite(loss_SK[place - 1, won_M]) & np.isfinite(loss_SK[place + 1, won_M])
        if len(won_M) and between_M.all():  # else it is lowest only because a neighbour was not run there
            minima.append((float(np.exp(log_C_K[won_M].mean())), curve.N))
    return _line(name, minima, [], _NO_ENVELOPE)


@dataclass(frozen=True, slots=True)
class _Curve:
    N: float
    low: float
    high: float
    spline: Akima1DInterpolator

    def at(self, log_C_K: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        inside_K = (log_C_K >= self.low - 1e-9) & (log_C_K <= self.high + 1e-9)
        return np.where(inside_K, self.spline(np.clip(log_C_K, self.low, self.high)), np.inf)


def _size_curves(runs: Runs) -> Iterator[_Curve]:
    """Yields the curve of each size that was trained to several lengths, from the smallest size."""
    group_R = same_size(runs.N)
    for group in range(int(group_R.max()) + 1):
        members = np.flatnonzero(group_R == group)
        log_C_M, loss_M = _means(np.log(runs.C[members]), runs.loss[members])
        if len(log_C_M) >= _FEWEST_LENGTHS:
            spline = Akima1DInterpolator(log_C_M, loss_M)
            yield _Curve(float(np.exp(np.log(runs.N[members]).mean())), log_C_M[0], log_C_M[-1], spline)


def _budgets(runs: Runs) -> Iterator[tuple[float, Float[np.ndarray, " M"], Float[np.ndarray, " M"]]]:
    """Yields C, and log N with the mean loss of each size, for each budget of enough sizes."""
    for inside in windows(runs.C, _BUDGET_WIDTH, _FEWEST_SIZES):
        log_N_M, loss_M = _means(np.log(runs.N[inside]), runs.loss[inside])
        if len(log_N_M) >= _FEWEST_SIZES:
            yield float(np.exp(np.log(runs.C[inside]).mean())), log_N_M, loss_M


def _means(x_R: Float[np.ndarray, " R"], y_R: Float[np.ndarray, " R"]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct places in order, and the mean at each: repeated seeds are one point."""
    group_R = same_size(np.exp(x_R))
    count_M = np.bincount(group_R)
    return np.bincount(group_R, x_R) / count_M, np.bincount(group_R, y_R) / count_M


def _parabola_minimum(log_N_M: np.ndarray, loss_M: np.ndarray) -> tuple[float | None, str]:
    middle = float(log_N_M.mean())
    bend, slope, _ = np.polyfit(log_N_M - middle, loss_M, 2)
    if bend <= 0:
        return None, "the parabola has no minimum"
    lowest = middle - slope / (2 * bend)
    if not log_N_M[0] < lowest < log_N_M[-1]:
        return None, "the minimum lies outside the sizes that were run"
    return float(lowest), ""


def _akima_minimum(log_N_M: np.ndarray, loss_M: np.ndarray) -> tuple[float | None, str]:
    spline = Akima1DInterpolator(log_N_M, loss_M)
    level = spline.derivative().roots(extrapolate=False)
    candidates = np.concatenate([log_N_M, level[np.isfinite(level)]])  # not finite: a stretch that is level throughout
    lowest = float(candidates[np.argmin(spline(candidates))])
    if lowest in (log_N_M[0], log_N_M[-1]):
        return None, "the lowest loss is at the edge of the sizes that were run"
    return lowest, ""


def _line(name: str, minima: list[tuple[float, float]], left_out: list[str], missing: str) -> Approach:
    """Draws the line through log N* over log C."""
    if len(minima) < _FEWEST_BUDGETS:
        return Approach(name=name, a=None, standard_error=None, minima=tuple(minima), left_out=(*left_out, missing))
    x_K, y_K = np.log(np.array(minima)).T
    x_K = x_K - x_K.mean()
    a = float((x_K * y_K).sum() / (x_K**2).sum())
    off_K = y_K - y_K.mean() - a * x_K
    error = float(np.sqrt((off_K**2).sum() / max(1, len(x_K) - 2) / (x_K**2).sum()))
    return Approach(name=name, a=a, standard_error=error, minima=tuple(minima), left_out=tuple(left_out))
