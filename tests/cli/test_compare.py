"""`nextok compare`: tables, a verdict in words, one object, a picture."""

import json
import shutil
from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.cli.compare import verdict
from nextok.comparison import Difference
from nextok.evals import Interval
from nextok.files import to_json, write_json

from .conftest import Nextok


@pytest.fixture
def other(trained: Path, tmp_path: Path) -> Path:
    """The trained run once more, as if with half the rate and higher losses."""
    path = tmp_path / "half rate"
    shutil.copytree(trained, path)
    run = RunDirectory(path)
    record = run.read_run()
    record["options"]["train"]["lr"] /= 2
    write_json(run.record, {"schema": 1, **record})
    rows = [row | {"train_loss": row["train_loss"] + 0.5} for row in read_metrics(run.metrics)]
    run.metrics.write_text("".join(to_json(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_runs_stand_beside_each_other_with_a_verdict_and_a_picture(nextok: Nextok, trained: Path, other: Path) -> None:
    code, out, err = nextok("compare", str(trained), str(other), "--plot", "both.png")
    assert code == 0, err
    for part in ("best validation loss", "bits per byte", "train.lr", "0.001", "0.0005", "curves: both.png"):
        assert part in out
    assert "half rate ends 0.0000 nats per token higher than run: no more than noise" in " ".join(out.split())
    assert Path("both.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_one_object(nextok: Nextok, trained: Path, other: Path) -> None:
    code, out, _ = nextok("compare", str(trained), str(other), "--json")
    assert code == 0
    found = json.loads(out)
    assert [run["path"] for run in found["runs"]] == [str(trained), str(other)]
    assert found["options"] == {"train.lr": [0.001, 0.0005]}
    assert found["differences"][0]["more_than_noise"] is False
    assert {"best_val_loss", "best_bits_per_byte", "seconds", "tokens"} <= found["runs"][0].keys()


def test_one_run_is_not_enough(nextok: Nextok, trained: Path) -> None:
    code, _, err = nextok("compare", str(trained))
    assert code == 2
    assert "needs two runs" in err


@pytest.mark.parametrize(
    ("difference", "low", "high", "said"),
    [
        (-0.1, -0.2, -0.05, "b ends 0.1000 nats per token lower than a: more than noise (95 % interval -0.2000 to"),
        (0.1, -0.2, 0.4, "b ends 0.1000 nats per token higher than a: no more than noise"),
    ],
)
def test_the_verdict_says_which_way_and_how_sure(difference: float, low: float, high: float, said: str) -> None:
    interval = Interval(difference=difference, low=low, high=high, level=0.95, n=50)
    found = Difference(
        runs=("runs/b",),
        beside=("runs/a",),
        unit="nats per token",
        difference=difference,
        interval=interval,
        note="So.",
    )
    shown = verdict(found, {"runs/a": "a", "runs/b": "b"})
    assert shown.startswith(said)
    assert shown.endswith("So.")
