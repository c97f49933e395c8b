"""How much the loss of a run would differ under another seed: from repeats, or where there are none from residuals.

Noise is told as a standard deviation of log loss, that is as a share of the loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from nextok.scaling.runs import Runs

NoiseSource = Literal["seeds", "residuals"]
MAD_TO_SD = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""

_FEWEST_REPEATS = 4  # the spread of two pairs is half of what it should be in one case of five


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """The spread of runs that differ in nothing but luck."""

    share: float
    """Standard deviation of log loss; at least 0."""
    source: NoiseSource
    """Runs of equal N and D with other seeds, or what the fit leaves over, which holds what it gets wrong as well."""
    degrees: int
    """Degrees of freedom behind it: repeats, or runs less constants."""


def repeats(runs: Runs) -> Iterator[Int[np.ndarray, " M"]]:
    """Yields the positions of runs that share N and D and differ in their seed, group by group."""
    _, group_R = np.unique(np.stack([runs.N, runs.D], axis=1), axis=0, return_inverse=True)
    group_R = group_R.reshape(-1)
    for group in range(int(group_R.max()) + 1):
        members = np.flatnonzero(group_R == group)
        if len(np.unique(runs.seed[members])) == len(members) > 1:
            yield members


def seed_noise(runs: Runs) -> Noise | None:
    """Returns the spread among repeated seeds, or None with fewer than four repeats: by chance those may agree."""
    deviations = [np.log(runs.loss[members]) for members in repeats(runs)]
    degrees = sum(len(each) - 1 for each in deviations)
    if degrees < _FEWEST_REPEATS:
        return None
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in deviations)
    return Noise(share=float(np.sqrt(squares / degrees)), source="seeds", degrees=degrees)


def residual_noise(residual_R: Float[np.ndarray, " R"], constants: int) -> Noise:
    """Returns the spread of log residuals by their median size, which a few outliers do not move.

    Huber's loss with a small delta passes almost exactly through as many runs as there are constants. Those say nothing
    of noise and are left out; with them 15 runs seemed half as noisy as they were.
    """
    size_R = np.sort(np.abs(residual_R))[constants:]
    spread = MAD_TO_SD * float(np.median(size_R)) if len(size_R) else 0.0
    return Noise(share=spread, source="residuals", degrees=len(size_R))


def other_seeds(runs: Runs) -> Float[np.ndarray, " K"] | None:
    """Returns how far log losses lie from the mean of their repeats, widened to the spread of single runs."""
    deviations = []
    for members in repeats(runs):
        logs = np.log(runs.loss[members])
        deviations.append((logs - logs.mean()) * np.sqrt(len(logs) / (len(logs) - 1)))
    return np.concatenate(deviations) if deviations else None
