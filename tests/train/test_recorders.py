"""What a run tells lands in its files."""

import json
from pathlib import Path

from nextok.checkpoint import RunDirectory
from nextok.train import Finding, Logged, Message, Sampled, Saved, recorders
from nextok.train.recorders import Recorder


def test_metrics_samples_and_plot_are_written(tmp_path: Path, monkeypatch) -> None:
    run = RunDirectory(tmp_path / "run é")
    run.path.mkdir()
    recorder = Recorder(run)
    recorder(Logged(record={"step": 1, "train_loss": 2.5, "grad_norm": float("nan")}))
    recorder(Logged(record={"step": 2, "train_loss": 2.0, "val_loss": 2.25}))
    recorder(Sampled(step=2, text="※ sample"))
    recorder(Message(text="not recorded"))
    recorder(Finding(step=2, kind="spike", text="It jumped.", advice="Lower it."))
    kept = json.loads(run.findings.read_text(encoding="utf-8"))
    assert kept == {"step": 2, "kind": "spike", "text": "It jumped.", "advice": "Lower it."}
    rows = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"step": 1, "train_loss": 2.5, "grad_norm": None}
    assert "※ sample" in run.samples.read_text(encoding="utf-8")
    plot = run.plots / "loss.png"
    recorder(Saved(step=2, folder=run.path, best=True))
    assert not plot.exists()
    monkeypatch.setattr(recorders, "_PLOT_EVERY_S", -1.0)
    recorder(Saved(step=2, folder=run.path, best=True))
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_nothing_told_nothing_drawn(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    Recorder(run).plot()
    assert not run.plots.exists()
