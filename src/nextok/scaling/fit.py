"""A law fitted to runs: the constants, how sure they are, and what speaks against them. `nextok fit` calls `fit`.

Least squares by variable projection starts the search; the objective of Hoffmann et al. (`objective.py`) decides it.
Nothing is dropped here: outliers are named, and stay.
"""

import numpy as np
from jaxtyping import Float

from nextok import units
from nextok.scaling.bootstrap import Bootstrap, bootstrap, refit, without_each
from nextok.scaling.fit_result import Fit, FitOptions, Outlier, Without
from nextok.scaling.grouping import same_size
from nextok.scaling.identify import reasons_in_bootstrap, reasons_in_design, reasons_in_fit, require_enough
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.minimize import Minima, minimize
from nextok.scaling.noise import MAD_TO_SD, residual_noise, seed_noise
from nextok.scaling.objective import CONSTANTS, Points, Samples, Thetas
from nextok.scaling.projection import least_squares, starts
from nextok.scaling.runs import Runs

_SAME_OPTIMUM = 1e-4  # of the objective: a start that ends this near to the lowest has reached it
_OUTLIER = 5.0  # robust standard deviations


def fit(runs: Runs, options: FitOptions | None = None) -> Fit:
    """Returns the law that the runs follow, if they show one.

    Raises:
        InputError: for fewer than six runs.
    """
    options = options or FitOptions()
    runs = runs.without_highest(options.drop_highest)
    require_enough(runs)
    points = Points.of(runs)
    squares_5 = least_squares(runs, points)
    minima = _minima(squares_5, runs, points, options.delta)
    best_5 = minima.theta[int(np.argmin(minima.objective))]
    law = points.law(best_5)
    both = np.stack([best_5, squares_5])
    reasons = reasons_in_design(runs) or reasons_in_fit(law, runs)
    drawn = () if reasons else _bootstraps(runs, points, both, options)
    reasons += reasons_in_bootstrap(drawn[0], runs) if drawn else []
    residual_R = _residuals(points.constants(best_5[None])[0], runs)
    return Fit(
        runs=runs,
        law=None if reasons else law,
        not_identified=tuple(reasons),
        objective=float(minima.objective.min()),
        starts=len(minima.objective),
        starts_at_optimum=_share_at_optimum(minima),
        least_squares=points.law(squares_5),
        bootstraps=drawn,
        noise=seed_noise(runs) or residual_noise(residual_R, CONSTANTS),
        residual=residual_R,
        outliers=_outliers(residual_R, runs),
        without_size=() if reasons else _without_sizes(runs, points, both, options.delta),
        without_top=None if reasons else _without_top(runs, points, both, options.delta),
        options=options,
    )


def _minima(squares_5: Float[np.ndarray, " 5"], runs: Runs, points: Points, delta: float) -> Minima:
    begin_S5 = np.concatenate([squares_5[None], starts(runs, points)])
    return minimize(begin_S5, points, Samples.of(runs, np.ones((len(begin_S5), len(runs)))), delta)


def _share_at_optimum(minima: Minima) -> float:
    least = float(minima.objective.min())
    return float((minima.objective <= least * (1 + _SAME_OPTIMUM) + 1e-20).mean())


def _bootstraps(runs: Runs, points: Points, both: Thetas, options: FitOptions) -> tuple[Bootstrap, ...]:
    if not options.resamples:
        return ()
    drawn = [
        bootstrap(by, runs, points, both, count=options.resamples, seed=options.seed, delta=options.delta)
        for by in ("run", "seed")
    ]
    return tuple(each for each in drawn if each is not None)


def _residuals(constants_5: Float[np.ndarray, " 5"], runs: Runs) -> Float[np.ndarray, " R"]:
    E, A, B, alpha, beta = constants_5
    with np.errstate(over="ignore", invalid="ignore"):
        return np.log(runs.loss) - np.log(E + A * runs.N**-alpha + B * runs.D**-beta)


def _outliers(residual_R: Float[np.ndarray, " R"], runs: Runs) -> tuple[Outlier, ...]:
    spread = MAD_TO_SD * float(np.median(np.abs(residual_R)))
    far = np.flatnonzero(np.abs(residual_R) > max(_OUTLIER * spread, 1e-6))
    return tuple(
        Outlier(
            line=int(runs.line[each]),
            N=float(runs.N[each]),
            D=float(runs.D[each]),
            loss=float(runs.loss[each]),
            predicted=float(runs.loss[each] * np.exp(-residual_R[each])),
            deviations=float(residual_R[each] / spread) if spread else float("inf"),
        )
        for each in sorted(far, key=lambda each: -abs(residual_R[each]))
    )


def _without_sizes(runs: Runs, points: Points, both: Thetas, delta: float) -> tuple[Without, ...]:
    group_R = same_size(runs.N)
    thetas = refit(without_each(group_R, runs), points, both, delta)
    told = []
    for group, theta_5 in enumerate(thetas):
        size = units.format_count(float(np.exp(np.log(runs.N[group_R == group]).mean())))
        told.append(_told(f"N = {size}", group_R == group, points.law(theta_5), runs))
    return tuple(told)


def _without_top(runs: Runs, points: Points, both: Thetas, delta: float) -> Without | None:
    """Leaves the tenth of the runs with the highest compute out, with all runs of the same compute."""
    C_R = runs.C
    floor = np.sort(C_R)[-max(1, len(runs) // 10)]
    top_R = floor * 0.99 <= C_R
    if len(runs) - int(top_R.sum()) < CONSTANTS + 1:
        return None
    theta_S5 = refit(Samples.of(runs, (~top_R)[None].astype(np.float64)), points, both, delta)
    return _told(f"C >= {floor:.3g}", top_R, points.law(theta_S5[0]), runs)


def _told(name: str, out_R: np.ndarray, law: ParametricLaw | None, runs: Runs) -> Without:
    error = None
    if law is not None:
        predicted = law.E + law.A * runs.N[out_R] ** -law.alpha + law.B * runs.D[out_R] ** -law.beta
        error = float(np.sqrt(np.mean((predicted - runs.loss[out_R]) ** 2)))
    return Without(left_out=name, runs=int(out_R.sum()), law=law, error=error)
