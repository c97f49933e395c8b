"""The whole fit: the published reference, exact runs, units, seeds, and runs that are set aside."""

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.scaling import Fit, FitOptions, fit, runs_of
from nextok.scaling.runs import Runs

from .conftest import KNOWN, known_grid

QUICK = FitOptions(resamples=0)


def interval(found: Fit, name: str, level: float) -> tuple[float, float]:
    values = [getattr(law, name) for law in found.bootstraps[0].laws]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def test_the_published_runs_have_the_published_law(published_fit: Fit) -> None:
    law = published_fit.law
    assert law is not None
    assert published_fit.objective <= 0.0010182741
    assert pytest.approx(1.8172, abs=1e-4) == law.E
    assert pytest.approx(477.8, abs=0.1) == law.A
    assert pytest.approx(2143.4, abs=0.1) == law.B
    assert (law.alpha, law.beta) == pytest.approx((0.34731, 0.36717), abs=1e-5)
    assert law.a == pytest.approx(0.5139, abs=5e-5)
    assert np.median(np.abs(published_fit.residual)) == pytest.approx(0.0033, abs=2e-4)


def test_its_intervals_are_the_published_ones(published_fit: Fit) -> None:
    assert interval(published_fit, "a", 0.95) == pytest.approx((0.4815, 0.5567), abs=0.005)
    assert interval(published_fit, "E", 0.95) == pytest.approx((1.768, 1.871), abs=0.008)
    assert interval(published_fit, "alpha", 0.95) == pytest.approx((0.316, 0.371), abs=0.005)
    assert interval(published_fit, "beta", 0.95) == pytest.approx((0.334, 0.417), abs=0.006)
    assert np.std([law.a for law in published_fit.bootstraps[0].laws]) == pytest.approx(0.0204, abs=0.002)


def test_the_five_highest_losses_bend_the_law_and_are_named(published: Runs) -> None:
    found = fit(published, QUICK)
    assert found.law is not None
    assert found.law.a == pytest.approx(0.565, abs=5e-4)
    assert pytest.approx(1.891, abs=5e-4) == found.law.E
    assert {2, 3, 4, 5} <= {each.line for each in found.outliers}
    assert len(found.runs) == 245


def test_what_is_set_aside_is_listed(published_fit: Fit) -> None:
    assert sorted(each.line for each in published_fit.runs.left_out) == [2, 3, 4, 5, 6]
    assert len(published_fit.runs) == 240


def test_no_single_size_carries_the_published_law(published_fit: Fit) -> None:
    exponents = [each.law.a for each in published_fit.without_size if each.law is not None]
    assert len(exponents) == len(published_fit.without_size) == 40
    assert 0.50 < min(exponents) < max(exponents) < 0.535
    assert sum(each.runs for each in published_fit.without_size) == 240
    assert published_fit.without_top is not None
    assert published_fit.without_top.error == pytest.approx(0.027, abs=0.002)


def test_runs_without_noise_give_their_law_to_a_millionth() -> None:
    found = fit(known_grid(), FitOptions(resamples=20))
    assert found.law is not None
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(found.law, name) == pytest.approx(getattr(KNOWN, name), rel=1e-6)
        low, high = interval(found, name, 1.0)
        assert (low, high) == pytest.approx((getattr(KNOWN, name),) * 2, rel=1e-6)
    assert found.outliers == ()
    assert max(each.error or 1.0 for each in found.without_size) < 1e-6


@pytest.mark.parametrize("factor", [1e-6, 1e-9, 1e3])
def test_the_units_of_n_and_d_change_nothing(factor: float) -> None:
    runs = known_grid(noise=0.01)
    plain = fit(runs, QUICK)
    scaled = fit(runs_of(runs.N * factor, runs.D / factor, runs.loss), QUICK)  # type: ignore[arg-type]
    assert plain.law is not None and scaled.law is not None
    for name in ("E", "alpha", "beta", "a"):
        assert getattr(scaled.law, name) == pytest.approx(getattr(plain.law, name), rel=1e-8)
    assert pytest.approx(plain.law.A * factor**plain.law.alpha, rel=1e-8) == scaled.law.A
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-9)


def test_the_order_of_the_rows_changes_nothing() -> None:
    runs = known_grid(noise=0.01)
    turned = runs.take(np.arange(len(runs))[::-1])
    one, other = fit(runs, QUICK), fit(turned, QUICK)
    assert one.law is not None and other.law is not None
    assert one.law.a == pytest.approx(other.law.a, rel=1e-8)


def test_repeated_seeds_measure_the_noise_and_give_a_second_interval(noisy_fit: Fit) -> None:
    assert [drawn.by for drawn in noisy_fit.bootstraps] == ["run", "seed"]
    assert noisy_fit.noise.source == "seeds"
    assert noisy_fit.noise.share == pytest.approx(0.005, rel=0.35)
    low, high = np.quantile([law.a for law in noisy_fit.bootstraps[1].laws], [0.1, 0.9])
    assert 0 < high - low < 0.1


def test_one_seed_gives_one_answer() -> None:
    runs = known_grid(noise=0.01)
    options = FitOptions(resamples=20, seed=3)
    assert fit(runs, options).bootstraps == fit(runs, options).bootstraps
    assert fit(runs, options).bootstraps != fit(runs, FitOptions(resamples=20, seed=4)).bootstraps


def test_one_wild_run_is_named_and_hardly_moves_the_law() -> None:
    runs = known_grid()
    loss = runs.loss.copy()
    loss[7] *= 1.3
    found = fit(runs_of(runs.N, runs.D, loss), QUICK)  # type: ignore[arg-type]
    assert found.law is not None
    assert found.law.a == pytest.approx(KNOWN.a, abs=1e-3)
    assert [each.line for each in found.outliers] == [8]


def test_two_runs_are_refused() -> None:
    with pytest.raises(InputError, match="there are 2 finished runs"):
        fit(runs_of([1e5, 2e5], [1e6, 2e6], [3.0, 2.9]))


@pytest.mark.parametrize("seed", range(8))
def test_any_table_gives_a_law_or_reasons(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = int(draw.integers(6, 30))
    N_R, D_R = np.exp(draw.uniform(0, 25, count)), np.exp(draw.uniform(0, 30, count))
    losses = (draw.uniform(1, 5, count), np.full(count, 3.0), np.exp(draw.uniform(-20, 20, count)), N_R**-0.3)
    found = fit(runs_of(N_R, D_R, losses[seed % 4]), FitOptions(resamples=20))  # type: ignore[arg-type]
    assert (found.law is None) == bool(found.not_identified)
    assert np.isfinite(found.objective)
