"""A law fitted to runs: the constants, how sure they are, and what speaks against them. `nextok fit` calls `fit`.

Least squares by variable projection starts the search; the objective of Hoffmann et al. (`objective.py`) decides it.
Nothing is dropped here: outliers are named, and stay.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nextok.errors import ConfigError, InputError
from nextok.scaling.bootstrap import Bootstrap, bootstrap, refit, without_each
from nextok.scaling.covered import Counting, Covered
from nextok.scaling.fitted import ConstantIntervals, Draw, FittedLaw, LossUnit
from nextok.scaling.identify import reasons_in_bootstrap, reasons_in_design, reasons_in_fit, require_enough
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.minimize import Minima, minimize
from nextok.scaling.noise import MAD_TO_SD, Noise, residual_noise, seed_noise
from nextok.scaling.objective import CONSTANTS, HUBER_DELTA, Points, Samples, Thetas
from nextok.scaling.projection import least_squares, starts
from nextok.scaling.runs import Runs

_SAME_OPTIMUM = 1e-4  # of the objective: a start that ends this near to the lowest has reached it
_OUTLIER = 5.0  # robust standard deviations


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOptions:
    """How a law is fitted."""

    drop_highest: int = 0
    """Leave out this many runs of the highest losses; they are listed. At least 0."""
    resamples: int = 400
    """Bootstrap resamples; 0 or at least 20. Source: Besiroglu et al. 2024 are reproduced with 400."""
    seed: int = 0
    """Of the resamples."""
    delta: float = HUBER_DELTA
    """Log residual at which Huber's loss turns from a square into a line; above 0. Source: Hoffmann et al. 2022."""
    level: float = 0.8
    """Share of the resamples that an interval holds; in (0, 1). Source: Hoffmann et al. 2022."""

    def __post_init__(self) -> None:
        _require(self.drop_highest >= 0, f"drop_highest = {self.drop_highest} is below 0.")
        _require(self.resamples == 0 or 20 <= self.resamples <= 100_000, f"resamples = {self.resamples} is not 0 or 20 to 100,000.")  # fmt: skip
        _require(0 < self.delta < np.inf, f"delta = {self.delta} is not above 0.")
        _require(0 < self.level < 1, f"level = {self.level} is not between 0 and 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlier:
    """A run far from the law. It stays in the fit."""

    line: int
    """Line of the file."""
    N: float
    D: float
    loss: float
    predicted: float
    deviations: float
    """Distance in robust standard deviations of all residuals, signed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Without:
    """The law of all runs but some, and how well it tells the losses of those."""

    left_out: str
    """What was left out: `N = 10.6M`, or the highest compute."""
    runs: int
    """Runs left out."""
    law: ParametricLaw | None
    """Fitted to the others; None where they give none."""
    error: float | None
    """Root mean square of predicted minus measured over the runs left out, in the unit of the loss."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fit:
    """What a fit found."""

    runs: Runs
    """The runs fitted, and the rows left out."""
    law: ParametricLaw | None
    """The constants; None where they are not identified."""
    not_identified: tuple[str, ...]
    """Reasons; empty where they are."""
    objective: float
    """Sum of Huber's losses at the optimum."""
    starts: int
    starts_at_optimum: float
    """Share of the starts that reached it."""
    least_squares: ParametricLaw | None
    """The law of least squared error, by variable projection alone; for comparison."""
    bootstraps: tuple[Bootstrap, ...]
    """By run, and by seed where seeds were repeated."""
    noise: Noise
    residual_R: Float[np.ndarray, " R"]
    """Log measured less log predicted."""
    outliers: tuple[Outlier, ...]
    without_size: tuple[Without, ...]
    """Leave one size out, for each."""
    without_top: Without | None
    """Leave the highest compute out."""
    options: FitOptions

    def covered(self) -> Covered:
        """Returns the smallest and largest N, D and C."""
        columns = (self.runs.N_R, self.runs.D_R, self.runs.C_R)
        ends = [(float(column.min()), float(column.max())) for column in columns]
        return Covered(N=ends[0], D=ends[1], C=ends[2])

    def fitted_law(
        self, *, counting: Counting, loss_unit: LossUnit = "nats/token", corpus: str = "", tokenizer: str = ""
    ) -> FittedLaw:
        """Returns the law as `nextok plan` and `nextok predict` read it.

        Raises:
            InputError: if the constants are not identified.
        """
        if self.law is None:
            raise InputError(f"These runs give no law to write: {self.not_identified[0]}.")
        laws = self.bootstraps[0].laws if self.bootstraps else ()
        return FittedLaw(
            law=self.law,
            a=self.law.a,
            covered=self.covered(),
            counting=counting,
            loss_unit=loss_unit,
            runs=len(self.runs),
            objective=self.objective,
            noise=self.noise.share,
            noise_source=self.noise.source,
            intervals=intervals(laws, self.options.level) if laws else None,
            level=self.options.level,
            draws=tuple(_draw(law) for law in laws),
            corpus=corpus,
            tokenizer=tokenizer,
        )


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
    best_5 = minima.theta_S5[int(np.argmin(minima.objective_S))]
    law = points.law(best_5)
    both = np.stack([best_5, squares_5])
    drawn = _bootstraps(runs, points, both, options)
    reasons = reasons_in_design(runs) or reasons_in_fit(law, runs)
    reasons += reasons_in_bootstrap(drawn[0], runs) if drawn and not reasons else []
    residual_R = _residuals(points.constants(best_5[None])[0], runs)
    return Fit(
        runs=runs,
        law=None if reasons else law,
        not_identified=tuple(reasons),
        objective=float(minima.objective_S.min()),
        starts=len(minima.objective_S),
        starts_at_optimum=_share_at_optimum(minima),
        least_squares=points.law(squares_5),
        bootstraps=drawn,
        noise=seed_noise(runs) or residual_noise(residual_R, CONSTANTS),
        residual_R=residual_R,
        outliers=_outliers(residual_R, runs),
        without_size=() if reasons else _without_sizes(runs, points, both, options.delta),
        without_top=None if reasons else _without_top(runs, points, both, options.delta),
        options=options,
    )


def intervals(laws: tuple[ParametricLaw, ...], level: float) -> ConstantIntervals:
    """Returns the middle share of each constant over all laws."""

    def ends(name: str) -> tuple[float, float]:
        low, high = np.quantile([getattr(law, name) for law in laws], [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    return ConstantIntervals(
        E=ends("E"), A=ends("A"), B=ends("B"), alpha=ends("alpha"), beta=ends("beta"), a=ends("a")
    )


def _minima(squares_5: Float[np.ndarray, " 5"], runs: Runs, points: Points, delta: float) -> Minima:
    begin_S5 = np.concatenate([squares_5[None], starts(runs, points)])
    return minimize(begin_S5, points, Samples.of(runs, np.ones((len(begin_S5), len(runs)))), delta)


def _share_at_optimum(minima: Minima) -> float:
    least = float(minima.objective_S.min())
    return float((minima.objective_S <= least * (1 + _SAME_OPTIMUM) + 1e-20).mean())


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
        return np.log(runs.loss_R) - np.log(E + A * runs.N_R**-alpha + B * runs.D_R**-beta)


def _outliers(residual_R: Float[np.ndarray, " R"], runs: Runs) -> tuple[Outlier, ...]:
    spread = MAD_TO_SD * float(np.median(np.abs(residual_R)))
    far = np.flatnonzero(np.abs(residual_R) > max(_OUTLIER * spread, 1e-6))
    return tuple(
        Outlier(
            line=int(runs.line_R[each]),
            N=float(runs.N_R[each]),
            D=float(runs.D_R[each]),
            loss=float(runs.loss_R[each]),
            predicted=float(runs.loss_R[each] * np.exp(-residual_R[each])),
            deviations=float(residual_R[each] / spread) if spread else float("inf"),
        )
        for each in sorted(far, key=lambda each: -abs(residual_R[each]))
    )


def _without_sizes(runs: Runs, points: Points, both: Thetas, delta: float) -> tuple[Without, ...]:
    from_sizes, samples = without_each(runs.N_R, runs)
    thetas = refit(samples, points, both, delta)
    return tuple(
        _told(f"N = {size:.4g}", runs.N_R == size, points.law(theta_5), runs)
        for size, theta_5 in zip(from_sizes, thetas, strict=True)
    )


def _without_top(runs: Runs, points: Points, both: Thetas, delta: float) -> Without | None:
    """Leaves the tenth of the runs with the highest compute out, with all runs of the same compute."""
    C_R = runs.C_R
    floor = np.sort(C_R)[-max(1, len(runs) // 10)]
    top_R = C_R >= floor * 0.99
    if len(runs) - int(top_R.sum()) < CONSTANTS + 1:
        return None
    theta_S5 = refit(Samples.of(runs, (~top_R)[None].astype(np.float64)), points, both, delta)
    return _told(f"C >= {floor:.3g}", top_R, points.law(theta_S5[0]), runs)


def _told(name: str, out_R: np.ndarray, law: ParametricLaw | None, runs: Runs) -> Without:
    error = None
    if law is not None:
        predicted = law.E + law.A * runs.N_R[out_R] ** -law.alpha + law.B * runs.D_R[out_R] ** -law.beta
        error = float(np.sqrt(np.mean((predicted - runs.loss_R[out_R]) ** 2)))
    return Without(left_out=name, runs=int(out_R.sum()), law=law, error=error)


def _draw(law: ParametricLaw) -> Draw:
    return law.E, law.A, law.B, law.alpha, law.beta


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigError(f"This fit cannot be made: {message}")
