"""Scores: hand values, compute-equivalents, and what speaks against a comparison."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nextok import config as options
from nextok.checkpoint import MetricsLog, RunDirectory
from nextok.errors import CheckpointError, InputError
from nextok.scaling import counted, finished_run, predict, score, score_run
from nextok.scaling.score import compute_factor
from nextok.spec import ModelConfig, count

from .conftest import KNOWN
from .test_prediction import CERTAIN

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
CONFIG = ModelConfig(vocab_size=65, n_layers=2, d_model=32, n_heads=2, context=16)
N, D = counted(count(CONFIG), "matmul"), 1_000_000
EXPECTED = KNOWN.loss(N, D)


def run_folder(path: Path, *, steps: int = 20, loss: float | None = EXPECTED) -> Path:
    run = RunDirectory.create(path)
    run.write_run({"steps": 20, "model": options.to_mapping(CONFIG)})
    log = MetricsLog(run.metrics)
    log.append({"step": 10, "tokens": D // 2, "val_loss": 9.0})
    log.append({"step": steps, "tokens": D, **({} if loss is None else {"val_loss": loss})})
    for file, at in ((run.record, START), (run.metrics, START + timedelta(hours=1))):
        os.utime(file, (at.timestamp(), at.timestamp()))
    return path


def test_hand_values() -> None:
    prediction = predict(CERTAIN, N=1e6, D=2e7)
    excess = prediction.loss - 1.2
    found = score(prediction, prediction.loss + 0.1 * excess)
    assert found.error == pytest.approx(0.1 * excess)
    assert found.share_of_excess == pytest.approx(0.1)
    assert found.sigmas == pytest.approx(0.1 * excess / (0.01 * prediction.loss))
    assert "no run was named" in found.remarks[0]


def test_inside_and_outside() -> None:
    prediction = predict(CERTAIN, N=1e6, D=2e7)
    low, high = prediction.interval
    assert [score(prediction, loss).inside for loss in (low, high, low - 1e-9, high + 1e-9)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("factor", [0.01, 0.5, 1.0, 3.0, 1e6])
def test_compute_goes_there_and_back(factor: float) -> None:
    loss = KNOWN.loss(1e6 * factor**0.5, 2e7 * factor**0.5)
    assert compute_factor(KNOWN, 1e6, 2e7, loss) == pytest.approx(factor, rel=1e-6)


def test_no_compute_reaches_e() -> None:
    assert compute_factor(KNOWN, 1e6, 2e7, 1.2) is None
    assert score(predict(CERTAIN, N=1e6, D=2e7), 1.1).compute_factor is None


@pytest.mark.parametrize("loss", [0.0, -1.0, float("nan"), float("inf")])
def test_a_loss_is_above_zero(loss: float) -> None:
    with pytest.raises(InputError, match="is not above 0"):
        score(predict(CERTAIN, N=1e6, D=2e7), loss)


@pytest.mark.parametrize(
    ("minutes", "said"), [(-1, []), (30, ["while large was running"]), (61, ["after large had ended"])]
)
def test_times_are_compared(tmp_path: Path, minutes: int, said: list[str]) -> None:
    run = finished_run(run_folder(tmp_path / "large"))
    prediction = predict(CERTAIN, N=N, D=D, now=START + timedelta(minutes=minutes))
    found = score_run(prediction, run)
    assert len(found.remarks) == len(said)
    assert all(part in remark for part, remark in zip(said, found.remarks, strict=True))
    assert found.error == pytest.approx(0, abs=1e-12)


def test_another_run_is_pointed_out(tmp_path: Path) -> None:
    run = finished_run(run_folder(tmp_path / "large"))
    remarks = score_run(predict(CERTAIN, N=2 * N, D=3 * D, now=START - timedelta(days=1)), run).remarks
    assert [remark.split(" = ")[0] for remark in remarks] == ["the prediction is for N", "the prediction is for D"]


def test_another_unit_is_refused(tmp_path: Path) -> None:
    run = finished_run(run_folder(tmp_path / "large"))
    prediction = predict(replace(CERTAIN, loss_unit="bits/byte"), N=N, D=D)
    with pytest.raises(InputError, match="bits/byte"):
        score_run(prediction, run)


def test_the_last_measured_loss_counts(tmp_path: Path) -> None:
    run = finished_run(run_folder(tmp_path / "large", loss=None))
    assert (run.loss, run.tokens, run.ended - run.started) == (9.0, D, timedelta(hours=1))


@pytest.mark.parametrize(("changes", "said"), [({"steps": 19}, "step 19 of 20")])
def test_an_unfinished_run_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        finished_run(run_folder(tmp_path / "large", **changes))


def test_no_run_and_no_loss_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        finished_run(tmp_path)
    run = RunDirectory.create(tmp_path / "empty")
    run.write_run({"steps": 20, "model": options.to_mapping(CONFIG)})
    with pytest.raises(InputError, match="no validation loss"):
        finished_run(tmp_path / "empty")
