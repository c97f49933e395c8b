"""Predictions: what they hold, how wide they are, and that they cannot be written twice or too late."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.scaling import Covered, Fit, FitOptions, FittedLaw, Prediction, fit, predict, prediction, read_prediction
from nextok.scaling.runs import runs_of

from .conftest import KNOWN, known_grid

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
CERTAIN = FittedLaw(
    law=KNOWN,
    covered=Covered(N=(1e4, 1e6), D=(1e5, 1e7), C=(1e10, 1e13)),
    counting="matmul",
    runs=24,
    noise=0.01,
    noise_source="seeds",
    draws=((1.2, 90.0, 300.0, 0.38, 0.36),) * 20,
)


def test_a_certain_law_leaves_only_the_luck_of_a_run() -> None:
    made = predict(CERTAIN, N=1e6, D=2e7, now=NOON)
    assert made.loss == pytest.approx(KNOWN.loss(1e6, 2e7))
    assert (made.sigma_fit, made.sigma) == pytest.approx((0, 0.01 * made.loss), abs=1e-12)
    z = NormalDist().inv_cdf(0.9)
    assert made.interval == pytest.approx((made.loss * np.exp(-0.01 * z), made.loss * np.exp(0.01 * z)), rel=1e-3)
    assert made.extrapolated_decades == pytest.approx(np.log10(6 * 2e13 / 1e13))
    assert made.written_at == "2026-05-04T12:00:00Z"


def test_uncertain_constants_widen_it() -> None:
    shifted = tuple((1.2 + 0.05 * step, 90.0, 300.0, 0.38, 0.36) for step in range(-2, 3))
    made = predict(replace(CERTAIN, draws=shifted, noise=0.0), N=1e6, D=2e7)
    assert made.interval == pytest.approx((made.loss - 0.1, made.loss + 0.1))
    assert made.sigma == pytest.approx(0.05 * np.sqrt(2))


def test_four_of_five_intervals_hold_what_is_measured() -> None:
    generator = np.random.default_rng(5)
    runs, inside, trials = known_grid(), 0, 40
    for _ in range(trials):
        loss_R = runs.loss * np.exp(0.005 * generator.standard_normal(len(runs)))
        found = fit(runs_of(runs.N, runs.D, loss_R), FitOptions(resamples=60))  # type: ignore[arg-type]
        made = predict(found.fitted_law(counting="total"), N=2e6, D=4e7)
        measured = KNOWN.loss(2e6, 4e7) * np.exp(0.005 * generator.standard_normal())
        inside += made.interval[0] <= measured <= made.interval[1]
    assert 0.6 <= inside / trials <= 0.95  # 0.8, and three standard errors on each side


def test_what_is_written_is_read(tmp_path: Path, noisy_fit: Fit) -> None:
    made = predict(noisy_fit.fitted_law(counting="matmul"), N=2_000_000, D=50_000_000, name="fit.json", sha256="ab")
    made.write(tmp_path / "prediction.json")
    assert read_prediction(tmp_path / "prediction.json") == made


def test_a_prediction_is_written_once(tmp_path: Path) -> None:
    made = predict(CERTAIN, N=1e6, D=2e7)
    made.write(tmp_path / "prediction.json")
    with pytest.raises(InputError, match="not replaced"):
        made.write(tmp_path / "prediction.json")


def test_a_run_that_has_begun_is_not_predicted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has begun"):
        predict(CERTAIN, N=1e6, D=2e7, run=tmp_path)
    assert predict(CERTAIN, N=1e6, D=2e7, run=tmp_path / "large").run == "large"


@pytest.mark.parametrize(("N", "D"), [(0, 1e6), (1e6, -1), (float("nan"), 1e6)])
def test_sizes_must_be_above_zero(N: float, D: float) -> None:
    with pytest.raises(InputError, match="is not above 0"):
        predict(CERTAIN, N=N, D=D)


@pytest.mark.parametrize("changes", [{"draws": ()}, {"noise": None}])
def test_a_fit_without_resamples_or_noise_predicts_nothing(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no interval"):
        predict(replace(CERTAIN, **changes), N=1e6, D=2e7)


def test_the_example_of_the_docstring_has_the_form() -> None:
    block = re.search(r"```json\n(.*?)```", prediction.__doc__ or "", re.DOTALL)
    assert block is not None
    fields = {name for name in Prediction.__dataclass_fields__ if name != "run"}
    assert set(json.loads(block[1])) == fields


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 2}, "schema is 2"),
        ({"loss": 1.0}, "does not hold|its law gives"),
        ({"interval": [9.0, 10.0]}, "does not hold"),
        ({"written_at": "yesterday"}, "is no time"),
        ({"sigma": 0.0}, "sigma = 0"),
        ({"luck": 1}, "luck"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = tmp_path / "prediction.json"
    predict(CERTAIN, N=1e6, D=2e7).write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(InputError, match=said):
        read_prediction(path)
