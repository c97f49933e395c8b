"""What a run directory says, and which runs are one recipe."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.comparison import differing_options, groups_of, read_run
from nextok.errors import CheckpointError

MakeRun = Callable[..., Path]


def test_a_run_is_read_with_its_best_and_its_last_losses(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run("a")
    found = read_run(path)
    rows = read_metrics(RunDirectory(path).metrics)
    assert (found.step, found.steps, found.tokens, found.seed) == (40, 40, 40 * 4 * 16, 1337)
    assert found.train_loss == rows[-1]["train_loss"]
    assert found.best_val_loss == min(row["val_loss"] for row in rows if "val_loss" in row)
    assert found.findings == ()


def test_findings_of_the_doctor_are_told_too(make_run: MakeRun) -> None:
    path = make_run("found")
    line = {"step": 7, "kind": "spike", "text": "It jumped.", "advice": "Lower it."}
    RunDirectory(path).findings.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert read_run(path).findings == ("step 7: It jumped.",)


def test_runs_that_differ_in_the_seed_alone_are_one_group(make_run: MakeRun) -> None:
    neutral = {"seed": 2, "eval_every_steps": 10, "sample_prompt": "x", "micro_batch_size": 2}
    paths = [
        make_run("a"),
        make_run("lower", train={"lr": 1e-3}),
        make_run("a, seed 2", train=neutral),
        make_run("again"),
        make_run("longer", steps=50),
    ]
    groups = groups_of([read_run(path) for path in paths])
    assert [[run.path.name for run in group] for group in groups] == [
        ["a", "a, seed 2"],
        ["lower"],
        ["again"],  # the same seed once more is no other sample
        ["longer"],
    ]


def test_options_that_differ_are_listed_with_the_value_of_each_run(make_run: MakeRun) -> None:
    runs = [read_run(path) for path in (make_run("a"), make_run("lower", train={"lr": 1e-3}))]
    assert differing_options(runs) == {"train.lr": [1e-2, 1e-3]}
    other = read_run(make_run("byte", tokenizer="byte"))
    assert {"text.tokenizer", "model.vocab_size"} <= differing_options([runs[0], other]).keys()
    assert differing_options([runs[0], runs[0]]) == {}


def test_a_run_without_a_line_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((make_run("a") / "run.json").read_bytes())
    with pytest.raises(CheckpointError, match="has no metrics yet"):
        read_run(tmp_path)
