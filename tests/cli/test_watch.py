"""What a person sees: every event once, and never an error of its own."""

import io
from pathlib import Path

from nextok.cli.watch import Watch
from nextok.corpus import PrepareProgress
from nextok.report import make_console
from nextok.train import Finding, Logged, Message, RunResult, Sampled, Saved, StepDone

RESULT = RunResult(
    path=Path("runs/x"), step=3, steps=5, tokens=96, seconds=1.5, train_loss=2.0, val_loss=2.5, val_bits_per_byte=3.5,
    best_val_loss=2.4, best_step=2, stopped_by="SIGINT",
)  # fmt: skip


def test_events_become_lines_and_the_summary_says_how_to_go_on() -> None:
    stream = io.StringIO()
    with Watch(make_console(stream, width=100), "x") as watch:
        for stage in ("scan", "encode"):
            watch.preparing(PrepareProgress(stage=stage, bytes_done=5, bytes_total=10, seconds=0.1))
        watch(Message(text="careful", warning=True))
        watch(Finding(step=1, kind="spike", text="It jumped.", advice="Lower it."))
        watch(StepDone(step=1, steps=5, train_loss=2.0))
        watch(Logged(record={"step": 1, "train_loss": 2.0, "lr": 0.1, "val_loss": None}))
        watch(Sampled(step=1, text="[red]not markup[/red]\n" * 20))
        watch(Saved(step=1, folder=Path("runs/x/checkpoints/step-000001"), best=True))
        watch(Saved(step=5, folder=Path("runs/x/checkpoints/step-000005"), best=True))
    watch.summary(RESULT)
    shown = stream.getvalue()
    for part in (
        "warning: careful",
        "warning: It jumped. Lower it.",
        "step=1/5",
        "train_loss=2.0000",
        "step-000005",
        "2.4000",
    ):
        assert part in shown
    assert "not markup" not in shown  # a log has one line a record; samples are in samples.txt
    assert "step-000001" not in shown
    assert "nextok train --resume --out runs/x" in shown


def test_terminal_shows_the_beginning_of_samples_as_they_are() -> None:
    stream = io.StringIO()
    console = make_console(stream, width=100)
    console._force_terminal = True
    with Watch(console, "x") as watch:
        watch(Sampled(step=1, text="[red]not markup[/red]\n" * 20))
    assert "sample at step 1" in stream.getvalue()
    assert stream.getvalue().count("[red]not markup[/red]") == 6
