"""What a fit is asked and how it is told: options in range, plain values, and the file of the law."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextok.errors import ConfigError
from nextok.files import to_json
from nextok.scaling import Fit, FitOptions, fit, intervals, read_fitted_law

from .conftest import known_grid


@pytest.mark.parametrize("changes", [{"drop_highest": -1}, {"resamples": 5}, {"delta": 0.0}, {"level": 1.0}])
def test_options_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        FitOptions(**changes)


def test_the_law_is_written_as_plans_read_it(noisy_fit: Fit, tmp_path: Path) -> None:
    noisy_fit.fitted_law(counting="matmul", corpus="text", tokenizer="byte").write(tmp_path / "fit.json")
    read = read_fitted_law(tmp_path / "fit.json")
    assert noisy_fit.law is not None and read.intervals is not None and read.covered.N is not None
    assert (read.law, read.a, read.runs) == (noisy_fit.law, noisy_fit.law.a, 48)
    assert (read.objective, read.noise, read.noise_source) == (noisy_fit.objective, noisy_fit.noise.share, "seeds")
    assert len(read.draws) == 200
    assert pytest.approx((3e4, 1e6)) == read.covered.N
    assert read.intervals.a == pytest.approx(read.interval(lambda law: law.a))
    assert (read.corpus, read.tokenizer, read.counting) == ("text", "byte", "matmul")


def test_without_resamples_there_are_no_intervals() -> None:
    law = fit(known_grid(), FitOptions(resamples=0)).fitted_law(counting="total")
    assert law.intervals is None
    assert law.draws == ()


def test_intervals_are_quantiles_of_each_constant(noisy_fit: Fit) -> None:
    laws = noisy_fit.bootstraps[0].laws
    low, high = intervals(laws, 0.5).beta
    assert (low, high) == pytest.approx(np.quantile([law.beta for law in laws], [0.25, 0.75]))


def test_everything_is_told_in_strict_json(noisy_fit: Fit) -> None:
    told = json.loads(to_json(noisy_fit.to_mapping()))
    assert told["identified"] is True
    assert told["law"]["a"] == pytest.approx(told["law"]["beta"] / (told["law"]["alpha"] + told["law"]["beta"]))
    assert set(told["intervals"]) == {"run", "seed"}
    assert len(told["without_size"]) == 6
    assert (told["runs"], told["noise"]["source"]) == (48, "seeds")
