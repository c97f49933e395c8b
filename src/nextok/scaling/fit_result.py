"""What a fit is asked and what it found, with the law as the file that plans and predictions read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nextok import config as options
from nextok.errors import ConfigError, InputError
from nextok.scaling.bootstrap import Bootstrap
from nextok.scaling.covered import Counting, Covered
from nextok.scaling.fitted import ConstantIntervals, Draw, FittedLaw, LossUnit
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.noise import Noise
from nextok.scaling.objective import HUBER_DELTA
from nextok.scaling.runs import Runs


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOptions:
    """How a law is fitted."""

    drop_highest: int = 0
    """Leave out this many runs of the highest losses; they are listed. At least 0."""
    resamples: int = 1000
    """Bootstrap resamples; 0 or at least 20. The ends of a 95 % interval stray by a tenth of its width with 400."""
    seed: int = 0
    """Of the resamples."""
    delta: float = HUBER_DELTA
    """Log residual at which Huber's loss turns from a square into a line; above 0. Source: Hoffmann et al. 2022."""
    level: float = 0.8
    """Share of the resamples that an interval holds; in (0, 1). Source: Hoffmann et al. 2022."""

    def __post_init__(self) -> None:
        _require(self.drop_highest >= 0, f"drop_highest = {self.drop_highest} is below 0.")
        enough = self.resamples == 0 or 20 <= self.resamples <= 100_000
        _require(enough, f"resamples = {self.resamples} is not 0 or 20 to 100,000.")
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
    residual: Float[np.ndarray, " R"]
    """Log measured less log predicted."""
    outliers: tuple[Outlier, ...]
    without_size: tuple[Without, ...]
    """Leave one size out, for each."""
    without_top: Without | None
    """Leave the highest compute out."""
    options: FitOptions

    def covered(self) -> Covered:
        """Returns the smallest and largest N, D and C."""
        columns = (self.runs.N, self.runs.D, self.runs.C)
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

    def to_mapping(self) -> dict[str, Any]:
        """Returns what was found as plain values, without the single resamples and runs."""
        return {
            "identified": self.law is not None,
            "not_identified": list(self.not_identified),
            "law": None if self.law is None else _plain_law(self.law),
            "intervals": {drawn.by: _told(drawn.laws, self.options.level) for drawn in self.bootstraps},
            "level": self.options.level,
            "resamples_without_law": {drawn.by: drawn.without_law for drawn in self.bootstraps},
            "objective": self.objective,
            "starts": self.starts,
            "starts_at_optimum": self.starts_at_optimum,
            "least_squares": None if self.least_squares is None else _plain_law(self.least_squares),
            "noise": options.to_mapping(self.noise),
            "median_error": float(np.median(np.abs(self.residual))),
            "runs": len(self.runs),
            "left_out": [options.to_mapping(each) for each in self.runs.left_out],
            "covered": options.to_mapping(self.covered()),
            "outliers": [options.to_mapping(each) for each in self.outliers],
            "without_size": [options.to_mapping(each) for each in self.without_size],
            "without_top": None if self.without_top is None else options.to_mapping(self.without_top),
        }


def intervals(laws: tuple[ParametricLaw, ...], level: float) -> ConstantIntervals:
    """Returns the middle share of each constant over all laws."""

    def ends(name: str) -> tuple[float, float]:
        low, high = np.quantile([getattr(law, name) for law in laws], [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    return ConstantIntervals(E=ends("E"), A=ends("A"), B=ends("B"), alpha=ends("alpha"), beta=ends("beta"), a=ends("a"))


def _told(laws: tuple[ParametricLaw, ...], level: float) -> dict[str, Any] | None:
    return options.to_mapping(intervals(laws, level)) if laws else None


def _plain_law(law: ParametricLaw) -> dict[str, float]:
    return {**options.to_mapping(law), "a": law.a}


def _draw(law: ParametricLaw) -> Draw:
    return law.E, law.A, law.B, law.alpha, law.beta


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigError(f"This fit cannot be made: {message}")
