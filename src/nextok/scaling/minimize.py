"""Newton's method with a damping that learns, on many objectives at once: every start and every resample is a row.

Beyond delta Huber's loss is a line, so the second derivatives come from few runs and jump: plain Newton strays. The
step solves (H + damping U) step = -gradient, where U belongs to reweighted squares that lie above the objective: damped
fully it is a step that cannot go up, undamped it is Newton's. Rows go on until Newton's own estimate of what is left to
gain is 1e-12 of F. 400 resamples of 240 runs, from two starts each, take a third of a second; a call of scipy's
L-BFGS-B for each takes seven times that.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nextok.scaling.objective import HUBER_DELTA, Points, Samples, Slopes, Thetas, objective, slopes

_STEPS = 300
_TRIES = 40  # of one step: damping grows to 4^40 before a row is taken to stand at the last bit
_LEFT_TO_GAIN = 1e-12  # share of F
_LAST_BIT = 1e-30  # squared rounding of a log loss: below it F is noise
_CELLS_AT_ONCE = 400_000  # of rows by runs: some 80 MB of workspace


@dataclass(frozen=True, slots=True, eq=False)
class Minima:
    """Where each row came to rest."""

    theta: Thetas
    objective: Float[np.ndarray, " S"]
    settled: Bool[np.ndarray, " S"]
    """Whether the row stopped by itself; the others used up their steps."""


def minimize(start_S5: Thetas, points: Points, samples: Samples, delta: float = HUBER_DELTA) -> Minima:
    """Returns the minimum that each row runs into from its start.

    Args:
        start_S5: Where each row starts.
        points: Where the runs lie.
        samples: The version of the runs that each row fits.
        delta: Of Huber's loss.
    """
    at_once = max(1, _CELLS_AT_ONCE // len(points.n))
    pieces = [slice(at, at + at_once) for at in range(0, len(start_S5), at_once)]
    done = [_minimize(start_S5[piece], points, samples.rows(piece), delta) for piece in pieces]
    return Minima(
        np.concatenate([each.theta for each in done]),
        np.concatenate([each.objective for each in done]),
        np.concatenate([each.settled for each in done]),
    )


def _minimize(start_S5: Thetas, points: Points, samples: Samples, delta: float) -> Minima:
    theta_S5 = start_S5.astype(np.float64)
    F_S = objective(theta_S5, points, samples, delta)
    damping_S = np.ones(len(theta_S5))
    going_S = np.ones(len(theta_S5), np.bool_)
    for _ in range(_STEPS):
        rows = np.flatnonzero(going_S)
        if not len(rows):
            break
        part = samples.rows(rows)
        local = slopes(theta_S5[rows], points, part, delta)
        state = _Rows(theta_S5[rows], F_S[rows], damping_S[rows], np.zeros(len(rows), np.bool_))
        _step(state, local, points, part, delta)
        theta_S5[rows], F_S[rows], damping_S[rows], going_S[rows] = state.theta, state.F, state.damping, ~state.settled
    return Minima(theta_S5, F_S, ~going_S)


@dataclass(slots=True, eq=False)
class _Rows:
    theta: np.ndarray
    F: np.ndarray
    damping: np.ndarray
    settled: np.ndarray


def _step(state: _Rows, local: Slopes, points: Points, samples: Samples, delta: float) -> None:
    """Moves every row one step down; a row that cannot go down, or need not, is settled."""
    upper = _never_singular(local.upper, samples)
    noise = _LAST_BIT * samples.weight.sum(axis=1)
    todo = np.arange(len(state.F))
    for _ in range(_TRIES):
        step, gain = _damped_newton(local, upper, state.damping, todo)
        there = objective(state.theta[todo] + step, points, samples.rows(todo), delta)
        lower = (gain > 0) & (there < state.F[todo])
        at_rest = (gain > 0) & (gain <= _LEFT_TO_GAIN * state.F[todo] + noise[todo])
        down = todo[lower]
        state.theta[down] += step[lower]
        state.F[down] = there[lower]
        state.settled[todo[at_rest]] = True
        moved = lower | at_rest
        state.damping[todo[moved]] = np.maximum(state.damping[todo[moved]] / 5, 1e-8)
        state.damping[todo[~moved]] *= 4
        todo = todo[~moved]
        if not len(todo):
            return
    state.settled[todo] = True
    state.damping[todo] = 1.0


def _damped_newton(
    local: Slopes, upper: np.ndarray, damping: np.ndarray, todo: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the step of each row and what it should gain; a gain of 0 where the matrix has a way down without end."""
    matrix = local.hessian[todo] + damping[todo, None, None] * upper[todo]
    values, vectors = np.linalg.eigh(matrix)
    definite = values[:, 0] > 1e-14 * np.abs(values).max(axis=1)
    along = np.einsum("sji,sj->si", vectors, local.gradient[todo])
    scaled = np.where(definite[:, None], along / np.where(definite[:, None], values, 1.0), 0.0)
    return -np.einsum("sij,sj->si", vectors, scaled), np.where(definite, (along * scaled).sum(axis=1), 0.0)


def _never_singular(upper_S55: np.ndarray, samples: Samples) -> np.ndarray:
    """Returns U with a little on its diagonal, for constants that no run of this version depends on."""
    trace_S = np.trace(upper_S55, axis1=1, axis2=2)
    least_S = 1e-9 * trace_S + 1e-12 * samples.weight.sum(axis=1)
    return upper_S55 + least_S[:, None, None] * np.eye(upper_S55.shape[1])
