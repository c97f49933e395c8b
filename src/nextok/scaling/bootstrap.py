"""Refits to runs as they might have been: other runs of the same kind, the same runs with other seeds, one size fewer.

All refits are rows of one minimization. Each starts at the optimum of the runs themselves and at their least-squares
law, and keeps the lower end.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from nextok import rng
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.minimize import minimize
from nextok.scaling.noise import other_seeds
from nextok.scaling.objective import HUBER_DELTA, Points, Samples, Thetas
from nextok.scaling.runs import Runs

Resampling = Literal["run", "seed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """The laws of all resamples."""

    by: Resampling
    """`run` draws runs with replacement; `seed` keeps every run and draws its luck anew."""
    laws: tuple[ParametricLaw, ...]
    """Of the resamples that have one."""
    without_law: int
    """Resamples whose fit is no law: an exponent below 0, or a constant beyond a double."""


def by_run(runs: Runs, count: int, seed: int) -> Samples:
    """Returns resamples in which each run counts as often as it was drawn, with replacement."""
    generator = _generator(seed, 0)
    drawn_SR = generator.integers(0, len(runs), (count, len(runs)))
    weight_SR = np.stack([np.bincount(drawn_R, minlength=len(runs)) for drawn_R in drawn_SR])
    return Samples.of(runs, weight_SR.astype(np.float64))


def by_seed(runs: Runs, count: int, seed: int) -> Samples | None:
    """Returns the same runs with the noise of another seed on each, drawn from the repeats; None without repeats."""
    deviations = other_seeds(runs)
    if deviations is None:
        return None
    noise_SR = _generator(seed, 1).choice(deviations, (count, len(runs)))
    return Samples(np.ones((count, len(runs))), np.log(runs.loss) + noise_SR)


def refit(samples: Samples, points: Points, starts: Thetas, delta: float = HUBER_DELTA) -> Thetas:
    """Returns the lowest minimum of each version of the runs among those reached from the starts."""
    ends = [minimize(np.tile(start, (len(samples), 1)), points, samples, delta) for start in starts]
    best_S = np.argmin([end.objective for end in ends], axis=0)
    return np.stack([end.theta for end in ends])[best_S, np.arange(len(samples))]


def bootstrap(
    by: Resampling, runs: Runs, points: Points, starts: Thetas, *, count: int, seed: int, delta: float = HUBER_DELTA
) -> Bootstrap | None:
    """Returns the laws of resampled runs; None by seed where no seed was repeated.

    Args:
        by: What is drawn anew.
        runs: The runs.
        points: Their places.
        starts: Where each refit starts.
        count: Resamples.
        seed: Of the draws.
        delta: Of Huber's loss.
    """
    samples = by_run(runs, count, seed) if by == "run" else by_seed(runs, count, seed)
    if samples is None:
        return None
    laws = [points.law(theta_5) for theta_5 in refit(samples, points, starts, delta)]
    found = tuple(law for law in laws if law is not None)
    return Bootstrap(by=by, laws=found, without_law=count - len(found))


def without_each(group_R: Int[np.ndarray, " R"], runs: Runs) -> Samples:
    """Returns for each group, numbered from 0, the runs without it."""
    group_S1 = np.arange(int(group_R.max()) + 1)[:, None]
    return Samples.of(runs, (group_R != group_S1).astype(np.float64))


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng(rng.key(seed, "sample", stream))
