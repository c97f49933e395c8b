"""`nextok predict`: before a run and after it."""

import json
from pathlib import Path

import pytest

from nextok.scaling import Covered, FittedLaw, ParametricLaw

from .conftest import Nextok

LAW = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)
PREDICT = ["predict", "fit.json", "--params", "1M", "--tokens", "20M"]


@pytest.fixture(autouse=True)
def fitted(tmp_path: Path) -> None:
    draws = tuple((1.2 + 0.01 * step, 90.0, 300.0, 0.38, 0.36) for step in range(-5, 6))
    FittedLaw(
        law=LAW,
        covered=Covered(N=(1e4, 1e6), D=(1e5, 1e7), C=(1e10, 1e13)),
        counting="matmul",
        runs=24,
        noise=0.002,
        noise_source="seeds",
        draws=draws,
    ).write(tmp_path / "fit.json")


def test_a_prediction_is_written_and_scored(nextok: Nextok, tmp_path: Path) -> None:
    code, out, _ = nextok(*PREDICT, "--out", "prediction.json")
    assert code == 0
    for shown in (f"{LAW.loss(1e6, 2e7):.4f}", "80% interval", "by repeated seeds", "1.1 decades", "Written to"):
        assert shown in " ".join(out.split())
    written = json.loads((tmp_path / "prediction.json").read_text(encoding="utf-8"))
    assert len(written["fit_sha256"]) == 64
    code, out, _ = nextok("predict", "--score", "prediction.json", "--loss", f"{written['loss'] + 0.01:.6f}")
    assert code == 0
    for shown in ("+0.0100 nats/token", "inside", "no run was named", "x the compute"):
        assert shown in " ".join(out.split())
    code, out, _ = nextok("predict", "--score", "prediction.json", "--loss", "1.0", "--json")
    report = json.loads(out)
    assert (report["inside"], report["compute_factor"], report["prediction"]["N"]) == (False, None, 1e6)
    assert nextok(*PREDICT, "--out", "prediction.json")[0] == 2


def test_json_is_the_prediction(nextok: Nextok, tmp_path: Path) -> None:
    report = json.loads(nextok(*PREDICT, "--json")[1])
    assert report["loss"] == pytest.approx(LAW.loss(1e6, 2e7))
    assert not (tmp_path / "prediction.json").exists()


def test_a_run_directory_is_scored_with_the_order_of_events(nextok: Nextok, trained: Path) -> None:
    assert nextok(*PREDICT, "--out", "late.json")[0] == 0
    code, out, _ = nextok("predict", str(trained), "--score", "late.json")
    assert code == 0
    told = " ".join(out.split())
    assert "after run had ended: it proves nothing" in told
    assert "the prediction is for N = 1e+06" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict"], "needs a fit, --params and --tokens"),
        (["predict", "fit.json", "--params", "1M"], "needs a fit, --params and --tokens"),
        ([*PREDICT, "--loss", "2"], "--loss is of a run that is over"),
        ([*PREDICT, "--run", "."], "has begun"),
        (["predict", "--score", "fit.json"], "needs a run directory or --loss"),
        (["predict", "run", "--score", "fit.json", "--loss", "2"], "needs a run directory or --loss"),
        (["predict", "--score", "fit.json", "--loss", "2"], "does not hold a prediction"),
        (["predict", "--score", "fit.json", "--loss", "2", "--params", "1M"], "as it was written"),
    ],
)
def test_halves_are_refused(nextok: Nextok, arguments: list[str], said: str) -> None:
    code, _, err = nextok(*arguments)
    assert code == 2
    assert said in err
