"""Runs that follow a known law, and the published ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nextok.scaling import Fit, FitOptions, ParametricLaw, fit
from nextok.scaling.runs import Columns, Runs, read_runs, runs_of

KNOWN = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)


def known_grid(sizes: int = 6, lengths: int = 4, noise: float = 0.0, repeats: int = 1) -> Runs:
    """Returns runs of the known law on a grid of sizes and lengths."""
    N_R, D_R = (each.ravel() for each in np.meshgrid(np.geomspace(3e4, 1e6, sizes), np.geomspace(8e5, 2e7, lengths)))
    seed_R = np.repeat(np.arange(repeats), len(N_R))
    N_R, D_R = np.tile(N_R, repeats), np.tile(D_R, repeats)
    luck_R = np.random.default_rng(0).standard_normal(len(N_R))
    return runs_of(N_R, D_R, KNOWN.loss(N_R, D_R) * np.exp(noise * luck_R), seed_R)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def published(shared_data: Callable[[str], Path]) -> Runs:
    """The 245 runs of Hoffmann et al. as Besiroglu et al. read them off a figure."""
    path = shared_data("chinchilla_epoch_245.csv")
    return read_runs(path, Columns(params="Model Size", flops="Training FLOP"))


@pytest.fixture(scope="session")
def published_fit(published: Runs) -> Fit:
    """The fit to 240 of them: those of the five highest losses are set aside, as published."""
    return fit(published, FitOptions(drop_highest=5, resamples=2000))


@pytest.fixture(scope="session")
def noisy_fit() -> Fit:
    """A fit to noisy runs of the known law, with every seed twice."""
    return fit(known_grid(noise=0.005, repeats=2), FitOptions(resamples=200))
