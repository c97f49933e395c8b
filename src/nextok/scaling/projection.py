"""Variable projection: for given exponents the law is linear in E, A and B, so only two numbers are searched.

    for each (alpha, beta):  least squares of L on (1, N^-alpha, D^-beta) with E, A, B not below 0

The search over two exponents is well conditioned (about 11, where that over five constants is about 1e11) and cannot
start in the wrong place. It gives the starts of the fit, and by itself the law of least squared error.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from nextok.scaling.objective import Points, Thetas
from nextok.scaling.runs import Runs

EXPONENTS = (0.02, 2.5)
"""Exponents that are searched. Published ones lie between 0.07 and 0.9; at an end nothing was found."""
_GRID = 24
_STARTS = 8  # a side
_ZOOMS, _ZOOM_GRID, _ZOOM = 36, 12, 0.5
_TINY = 1e-12  # share of the largest loss that stands for 0: theta holds logarithms
_SUBSETS = [list(subset) for size in (1, 2, 3) for subset in combinations(range(3), size)]


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """The best E, A', B' at each pair of exponents; A' and B' are in units of the mean N and D."""

    exponents: Float[np.ndarray, "G 2"]
    amounts: Float[np.ndarray, "G 3"]
    squares: Float[np.ndarray, " G"]
    """Sum of the squared errors of L."""

    def theta(self, tiny: float) -> Thetas:
        """Returns each as theta, with `tiny` in place of amounts of 0."""
        return np.concatenate([np.log(np.maximum(self.amounts, tiny)), self.exponents], axis=1)


def project(exponents_G2: Float[np.ndarray, "G 2"], runs: Runs, points: Points) -> Projected:
    """Returns the best non-negative E, A', B' for each pair of exponents."""
    alpha_G1, beta_G1 = exponents_G2.T[:, :, None]
    powers = np.exp(-alpha_G1 * points.n), np.exp(-beta_G1 * points.d)
    X_G3R = np.stack([np.ones_like(powers[0]), *powers], axis=1)
    gram_G33, moments_G3 = X_G3R @ X_G3R.transpose(0, 2, 1), X_G3R @ runs.loss
    best_G3, least_G = np.zeros((len(X_G3R), 3)), np.full(len(X_G3R), np.inf)
    for subset in _SUBSETS:  # seven: the sign pattern of the answer is one of them
        amounts_G3 = _solved(gram_G33, moments_G3, subset)
        error_GR = np.einsum("gk,gkr->gr", amounts_G3, X_G3R) - runs.loss
        squares_G = np.where((amounts_G3 >= 0).all(axis=1), (error_GR**2).sum(axis=1), np.inf)
        better_G = squares_G < least_G
        best_G3[better_G], least_G[better_G] = amounts_G3[better_G], squares_G[better_G]
    return Projected(exponents_G2, best_G3, least_G)


def least_squares(runs: Runs, points: Points) -> Float[np.ndarray, " 5"]:
    """Returns theta of the law of least squared error, found by narrowing a grid around its best cell."""
    low, high = np.log(EXPONENTS)
    centre_2, half = np.full(2, (low + high) / 2), (high - low) / 2
    size = _GRID
    for _ in range(_ZOOMS):
        logs_G2 = np.clip(centre_2 + _square(size) * half, low, high)
        found = project(np.exp(logs_G2), runs, points)
        best = int(np.argmin(found.squares))
        centre_2, half, size = logs_G2[best], half * _ZOOM, _ZOOM_GRID
    return found.theta(_tiny(runs))[best]


def starts(runs: Runs, points: Points) -> Thetas:
    """Returns theta at 64 pairs of exponents spread over all that are searched."""
    low, high = np.log(EXPONENTS)
    logs_G2 = (low + high) / 2 + _square(_STARTS) * (high - low) / 2
    return project(np.exp(logs_G2), runs, points).theta(_tiny(runs))


def _tiny(runs: Runs) -> float:
    return float(_TINY * runs.loss.max())


def _square(size: int) -> Float[np.ndarray, "G 2"]:
    """Returns a grid over [-1, 1] x [-1, 1]."""
    side = np.linspace(-1, 1, size)
    return np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)


def _solved(gram_G33: np.ndarray, moments_G3: np.ndarray, subset: list[int]) -> np.ndarray:
    """Returns the least-squares amounts with all outside the subset 0."""
    inside = np.ix_(range(len(gram_G33)), subset, subset)
    scale_GK = np.sqrt(np.diagonal(gram_G33[inside], axis1=1, axis2=2))
    scaled = gram_G33[inside] / (scale_GK[:, :, None] * scale_GK[:, None, :])
    ridge = 1e-15 * np.eye(len(subset))  # columns that are one and the same
    amounts = np.linalg.solve(scaled + ridge, (moments_G3[:, subset] / scale_GK)[:, :, None])[:, :, 0] / scale_GK
    all_G3 = np.zeros_like(moments_G3)
    all_G3[:, subset] = amounts
    return all_G3
