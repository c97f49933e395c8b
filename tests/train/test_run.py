"""A run is a function of (config, seed, corpus): stopped and resumed anywhere, it ends with the same bits."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextok.checkpoint import RunDirectory, load_snapshot, read_metrics, read_weights
from nextok.corpus import Batches, CorpusConfig, open_corpus, prepare
from nextok.errors import CheckpointError, ConfigError, CorpusError, DiskError, TokenizerError
from nextok.train import Event, Message, Request, RunOptions, RunResult, StepDone, resume, run, saved_options
from nextok.train.calibrate import Calibration
from nextok.train.step import micro_batches

MakeOptions = Callable[..., RunOptions]


def go(options: RunOptions, **extra: object) -> RunResult:
    return run(options, cache=options.out.parent / "cache", **extra)  # type: ignore[arg-type]


def final_state(path: Path) -> dict[str, np.ndarray]:
    """Every array of the last checkpoint, and its counters."""
    snapshot, warnings = load_snapshot(RunDirectory(path))
    assert not warnings
    arrays = {f"{group}/{name}": a for group, named in snapshot.arrays.items() for name, a in named.items()}
    counters = {name: np.array(value) for name, value in snapshot.state.items() if name != "seconds"}
    return {**arrays, **counters, "step": np.array(snapshot.step)}


def assert_same_bits(one: Path, other: Path) -> None:
    left, right = final_state(one), final_state(other)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    weights = [read_weights(RunDirectory(path).weights) for path in (one, other)]
    for name in weights[0]:
        np.testing.assert_array_equal(weights[0][name], weights[1][name], err_msg=name)


def curve(path: Path) -> list[dict[str, object]]:
    timed = ("seconds", "tokens_per_s", "flops_per_s")
    return [{k: v for k, v in row.items() if k not in timed} for row in read_metrics(RunDirectory(path).metrics)]


@pytest.mark.parametrize(
    ("pause", "train", "model"),
    [
        (10, {}, {}),
        (10, {"micro_batch_size": 3}, {}),
        (1, {}, {}),
        (19, {"eval_every_steps": 7, "save_every_steps": 4}, {}),
        (10, {"batch_size": 40}, {}),  # more than an epoch and a half in twenty steps
        (7, {}, {"dropout": 0.3}),
        (10, {"eval_every_steps": 100}, {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "bias": False}),
    ],
)
def test_twenty_steps_are_some_a_pause_and_the_rest(
    make_options: MakeOptions, pause: int, train: dict[str, object], model: dict[str, object]
) -> None:
    whole = make_options("whole", train=train, model=model)
    go(whole)
    paused = make_options("paused", train=train | {"pause_after_steps": pause}, model=model)
    result = go(paused)
    assert (result.step, result.stopped_by) == (pause, "pause_after_steps")
    ended = resume(saved_options(paused.out))
    assert (ended.step, ended.stopped_by) == (20, None)
    assert_same_bits(whole.out, paused.out)
    extra = [row for row in curve(paused.out) if row["step"] == pause and row not in curve(whole.out)]
    assert [row for row in curve(paused.out) if row not in extra] == curve(whole.out)
    assert len(extra) <= 1


def test_resume_at_the_very_end_of_an_epoch(make_options: MakeOptions) -> None:
    probe = go(make_options("probe", steps=1))
    batches = Batches(open_corpus(probe.path / "corpus").train, 16, 7)
    first_epoch = next(n for n in range(1, 10**6) if batches.order.epoch(n) >= 1)
    train = {"batch_size": first_epoch, "micro_batch_size": 64}
    whole = make_options("whole", steps=3, train=train)
    go(whole)
    paused = make_options("paused", steps=3, train=train | {"pause_after_steps": 1})
    go(paused)
    resume(saved_options(paused.out))
    assert_same_bits(whole.out, paused.out)


def test_batches_of_a_resumed_run_are_those_of_the_whole_run(make_options: MakeOptions) -> None:
    options = make_options(train={"micro_batch_size": 1}, steps=1)
    go(options)
    batches = Batches(open_corpus(options.out / "corpus").train, 16, options.train.seed)
    seen = [piece.starts_B for step in range(5) for piece in micro_batches(batches, 4 * step, options.train)]
    assert len(seen) == 20  # 5 steps of 4 micro-batches: the next one is number 20, counted from 0
    np.testing.assert_array_equal(np.concatenate(seen), batches.batch(0, 20).starts_B)
    np.testing.assert_array_equal(batches.batch(20, 4).starts_B, batches.order.starts(20, 4))


def test_how_often_a_run_evaluates_saves_and_samples_changes_nothing_it_learns(make_options: MakeOptions) -> None:
    often = {"eval_every_steps": 2, "save_every_steps": 3, "sample_tokens": 5, "log_every_steps": 7}
    seldom = make_options("seldom", train={"eval_every_steps": 20})
    frequent = make_options("frequent", train=often)
    go(seldom)
    go(frequent)
    last = [final_state(options.out) for options in (seldom, frequent)]
    for name in last[0]:
        if not name.startswith("best"):
            np.testing.assert_array_equal(last[0][name], last[1][name], err_msg=name)


def test_run_shorter_than_its_intervals_leaves_a_checkpoint_and_a_model(make_options: MakeOptions) -> None:
    options = make_options(steps=3, train={"eval_every_steps": 200, "save_every_steps": 200, "log_every_steps": 200})
    result = go(options)
    directory = RunDirectory(options.out)
    assert (options.out / "checkpoints/step-000003/weights.safetensors").is_file()
    assert directory.weights.is_file()
    assert directory.config.is_file()
    assert directory.plots.joinpath("loss.png").is_file()
    assert result.val_loss is not None
    assert [row["step"] for row in read_metrics(directory.metrics)] == [3]


def test_saving_before_any_evaluation_works(make_options: MakeOptions) -> None:
    options = make_options(train={"eval_every_steps": 15, "save_every_steps": 5, "pause_after_steps": 10})
    go(options)
    resume(replace(saved_options(options.out), train=replace(saved_options(options.out).train, pause_after_steps=12)))
    assert final_state(options.out)["step"] == 12
    assert RunDirectory(options.out).weights.is_file()


def test_best_weights_are_kept_apart_from_the_last(make_options: MakeOptions) -> None:
    # a rate that destroys the model after the first evaluation
    train = {"lr": 3.0, "schedule": "constant", "warmup_steps": 0, "eval_every_steps": 1}
    result = go(make_options(train=train, steps=6))
    assert result.best_step is not None
    assert result.best_val_loss == min(row["val_loss"] for row in read_metrics(RunDirectory(result.path).metrics))
    best, _ = load_snapshot(RunDirectory(result.path), "best")
    assert best.step == result.best_step
    stored = read_weights(RunDirectory(result.path).weights)["transformer.wte.weight"]
    np.testing.assert_array_equal(stored, best.arrays["weights"]["embed.tokens.weight"])


def test_metrics_are_strict_json_with_the_promised_names(make_options: MakeOptions) -> None:
    options = make_options(steps=4)
    go(options)
    rows = [json.loads(line) for line in RunDirectory(options.out).metrics.read_text(encoding="utf-8").splitlines()]
    names = {"step", "tokens", "epoch", "seconds", "train_loss", "lr", "grad_norm", "tokens_per_s", "flops_per_s"}
    assert all(names <= row.keys() for row in rows)
    assert {"val_loss", "val_bits_per_byte"} <= rows[-1].keys()
    assert rows[-1]["tokens"] == 4 * 4 * 16


def test_run_json_tells_where_the_model_comes_from(make_options: MakeOptions) -> None:
    options = make_options(steps=2)
    go(options, command="nextok train x --out 'a b'")
    record = RunDirectory(options.out).read_run()
    assert record["command"] == "nextok train x --out 'a b'"
    assert (record["seed"], record["steps"], record["options"]["train"]["lr"]) == (7, 2, 1e-3)
    assert record["corpus"]["folder"] == "corpus"
    assert record["model"]["vocab_size"] > 5
    assert len(record["corpus"]["tokenizer"]) >= 16
    assert record["machine"]["cores"] >= 1


def test_moved_run_directory_resumes(make_options: MakeOptions, tmp_path: Path) -> None:
    options = make_options(train={"pause_after_steps": 3})
    go(options)
    moved = tmp_path / "my runs é" / "moved run"
    moved.parent.mkdir()
    options.out.rename(moved)
    assert resume(saved_options(moved)).step == 20


def test_prepared_corpus_is_used_where_it_lies(make_options: MakeOptions, tmp_path: Path) -> None:
    first = go(make_options("first", steps=2))
    again = make_options("again", steps=2, sources=(str(first.path / "corpus"),))
    go(again)
    assert not RunDirectory(again.out).corpus.exists()
    assert_same_bits(first.path, again.out)
    assert resume(saved_options(again.out)).step == 2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"train": {"seed": 8}}, "train.seed"),
        ({"train": {"batch_size": 5}}, "train.batch_size"),
        ({"model": {"d_ff": 8}}, "model.d_ff"),
        ({"tokenizer": "byte"}, "tokenizer"),
    ],
)
def test_resumed_run_refuses_to_change_its_past(
    make_options: MakeOptions, change: dict[str, object], name: str
) -> None:
    options = make_options(train={"pause_after_steps": 2})
    go(options)
    changed = make_options(**change)
    with pytest.raises(ConfigError, match=f"cannot change {name}, "):
        resume(changed)


def test_resumed_run_can_be_made_longer(make_options: MakeOptions) -> None:
    options = make_options(steps=4)
    go(options)
    assert resume(replace(saved_options(options.out), steps=6)).step == 6
    assert RunDirectory(options.out).read_run()["steps"] == 6


def test_finished_run_resumed_changes_nothing(make_options: MakeOptions) -> None:
    options = make_options(steps=3)
    go(options)
    before = curve(options.out)
    assert resume(saved_options(options.out)).step == 3
    assert curve(options.out) == before


@pytest.mark.parametrize(
    "change", [{"tokenizer": "byte"}, {"config": CorpusConfig(val_fraction=0.3)}, {"sources": "other"}]
)
def test_changed_corpus_is_noticed(make_options: MakeOptions, tmp_path: Path, change: dict[str, Any]) -> None:
    """Another text, another tokenizer of the same text, another split of the same tokens."""
    text, other = tmp_path / "a.txt", tmp_path / "b.txt"
    text.write_text("abc def " * 300, encoding="utf-8")
    other.write_text("abc fed " * 300, encoding="utf-8")
    folder = tmp_path / "data"
    as_it_was = {"tokenizer": "char", "config": CorpusConfig(), "sources": "a"}

    def prepared(**values: Any) -> None:
        values = as_it_was | values
        sources = [str(other if values.pop("sources") == "other" else text)]
        prepare(sources, out=folder, cache=tmp_path, **values)

    prepared()
    options = make_options(sources=(str(folder),), train={"pause_after_steps": 2})
    go(options)
    prepared(**change)
    with pytest.raises(CheckpointError, match="not the one this run was started on"):
        resume(saved_options(options.out))
    prepared()
    assert resume(saved_options(options.out)).step == 20


def test_record_tells_what_made_a_prepared_corpus(make_options: MakeOptions) -> None:
    first = go(make_options("first", steps=1))
    again = make_options("again", steps=1, sources=(str(first.path / "corpus"),), tokenizer="bpe:300")
    go(again)
    assert RunDirectory(again.out).read_run()["options"]["tokenizer"] == "char"


def test_prepared_corpus_needs_no_more_the_file_its_tokenizer_came_from(
    make_options: MakeOptions, tmp_path: Path
) -> None:
    first = go(make_options("first", steps=1))
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_bytes(RunDirectory(first.path).tokenizer.read_bytes())
    second = go(make_options("second", steps=1, tokenizer=str(tokenizer)))
    tokenizer.unlink()
    assert go(make_options("third", steps=1, sources=(str(second.path / "corpus"),))).step == 1


def test_run_killed_before_its_first_checkpoint_starts_over(make_options: MakeOptions) -> None:
    whole, killed = make_options("whole"), make_options("killed")
    go(whole)

    def die(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 1:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        go(killed, hooks=[die])
    assert resume(saved_options(killed.out)).step == 20
    assert_same_bits(whole.out, killed.out)
    assert curve(whole.out) == curve(killed.out)


def test_changes_are_taken_into_a_resumed_run(make_options: MakeOptions) -> None:
    options = make_options(train={"pause_after_steps": 2})
    go(options)
    changed = saved_options(options.out, {"train": {"lr": 5e-5}})
    assert changed.train.lr == 5e-5
    resume(changed)
    assert read_metrics(RunDirectory(options.out).metrics)[-1]["lr"] == pytest.approx(5e-6)


def test_resumed_run_cannot_be_shorter_than_it_is_and_minutes_are_those_to_come(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = make_options(steps=6)
    go(options)
    with pytest.raises(ConfigError, match="already has 6 steps, more than the 2 asked for"):
        resume(replace(saved_options(options.out), steps=2))
    assert RunDirectory(options.out).read_run()["steps"] == 6
    measured = Calibration(step_seconds=1.0, eval_seconds=0.0, spent_seconds=0.0)
    monkeypatch.setattr(importlib.import_module("nextok.train.run"), "calibrate", lambda *_: measured)
    assert resume(replace(saved_options(options.out), minutes=0.1)).step == 6 + 5


def test_model_without_a_mask_trains_without_samples(make_options: MakeOptions) -> None:
    options = make_options(steps=4, model={"mask": "none"}, train={"sample_tokens": 10})
    events: list[Event] = []
    assert go(options, hooks=[events.append]).step == 4
    assert any("sees the future" in event.text for event in events if isinstance(event, Message))
    assert not RunDirectory(options.out).samples.exists()


def test_run_without_validation_still_logs_and_keeps_its_last_weights(make_options: MakeOptions) -> None:
    options = make_options(steps=3, corpus={"val_fraction": 0.0}, train={"log_every_steps": 50, "sample_tokens": 5})
    result = go(options)
    assert result.train_loss is not None
    assert result.val_loss is None
    directory = RunDirectory(options.out)
    assert directory.samples.is_file()
    last = load_snapshot(directory)[0].arrays["weights"]["embed.tokens.weight"]
    np.testing.assert_array_equal(read_weights(directory.weights)["transformer.wte.weight"], last)


def test_samples_are_written_once_however_often_a_run_is_resumed(make_options: MakeOptions) -> None:
    train = {"sample_tokens": 4, "eval_every_steps": 5, "save_every_steps": 20}
    options = make_options(train=train)

    def die(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 12:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        go(options, hooks=[die])
    resume(saved_options(options.out))
    headings = re.findall(r"^=== step (\d+) ===$", RunDirectory(options.out).samples.read_text(), re.MULTILINE)
    assert headings == ["5", "10", "15", "20"]


def test_signal_in_the_last_step_is_no_stop(make_options: MakeOptions) -> None:
    options = make_options(steps=3)
    result = go(options, hooks=[lambda e: Request(stop=isinstance(e, StepDone) and e.step == 3, reasons=("late",))])
    assert (result.step, result.stopped_by) == (3, None)


def test_nothing_is_left_of_a_run_that_could_not_start(make_options: MakeOptions, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("to be or not to be, that is the question", encoding="utf-8")
    for sources, model, error in [
        ((str(short),), {"context": 512}, CorpusError),
        ((str(tmp_path / "absent.txt"),), {}, CorpusError),
        ((), {}, CorpusError),
    ]:
        options = make_options(sources=sources, model=model)
        with pytest.raises(error):
            go(options)
        assert not options.out.exists()
    with pytest.raises(TokenizerError):
        go(make_options(tokenizer="bpee:300"))


def test_short_corpus_is_refused_with_counts_for_each_split(make_options: MakeOptions, tmp_path: Path) -> None:
    text = tmp_path / "some.txt"
    text.write_text("ab" * 400, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"train split has 720 tokens; context 1000 needs 1001"):
        go(make_options(sources=(str(text),), model={"context": 1000}))
    with pytest.raises(CorpusError, match=r"validation split has 80 tokens; context 100 needs 101.*64"):
        go(make_options(sources=(str(text),), model={"context": 100}))


def test_existing_run_is_not_overwritten(make_options: MakeOptions) -> None:
    options = make_options(steps=1)
    go(options)
    with pytest.raises(CheckpointError, match="already holds a run"):
        go(options)


def test_warnings_come_before_the_first_step(make_options: MakeOptions) -> None:
    events: list[Event] = []
    options = make_options(steps=60, train={"batch_size": 64, "eval_every_steps": 60})
    go(options, hooks=[events.append])
    texts = [event.text for event in events if isinstance(event, Message) and event.warning]
    assert any("times without dropout" in text for text in texts)
    assert isinstance(events[0], Message)


def test_full_disk_keeps_the_checkpoint_before(make_options: MakeOptions) -> None:
    resource = pytest.importorskip("resource")
    options = make_options(train={"pause_after_steps": 4, "save_every_steps": 4})
    go(options)
    before = final_state(options.out)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(DiskError, match="the disk is full"):
            resume(saved_options(options.out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    after = final_state(options.out)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert resume(saved_options(options.out)).step == 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_finishes_the_step_saves_and_the_rest_gives_the_same_bits(
    make_options: MakeOptions, number: int, code: int
) -> None:
    length = {"steps": 400, "train": {"eval_every_steps": 400, "save_every_steps": 400, "threads": 1}}
    whole, stopped = make_options("whole", **length), make_options("stopped one", **length)
    go(whole)
    model = [
        f"--{name.replace('_', '-')}={getattr(stopped.model, name)}"
        for name in ("n_layers", "d_model", "n_heads", "context")
    ]
    flags = "--recipe classic --tokenizer char --steps 400 --batch-size 4 --warmup-steps 2 --sample-tokens 0 --seed 7"
    flags += " --log-every-steps 1 --eval-every-steps 400 --save-every-steps 400 --threads 1"
    command = [
        sys.executable,
        "-m",
        "nextok",
        "train",
        *stopped.sources,
        *model,
        *flags.split(),
        "--out",
        str(stopped.out),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ.copy())
    metrics = RunDirectory(stopped.out).metrics
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size > 2000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(timeout=120) == code
    step = int(final_state(stopped.out)["step"])
    assert 0 < step < 400
    resume(saved_options(stopped.out))
    assert_same_bits(whole.out, stopped.out)
