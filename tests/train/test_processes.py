"""Several processes train what one trains: the same batches, the same losses, one voice, and one end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from crew import Crew, Ended, fail_in_the_second, go_slowly, log_batches, run_together
from nextok.checkpoint import RunDirectory, load_snapshot, read_metrics
from nextok.errors import ConfigError
from nextok.train.processes import ALONE, Processes, joined

STEPS = 50
CONTEXT = 16


@pytest.fixture(scope="session")
def arguments(text_file: Path) -> Callable[..., list[str]]:
    """Returns the command of a tiny run."""

    def make(out: Path, steps: int = STEPS, **options: object) -> list[str]:
        sizes = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": CONTEXT}
        train = {"batch_size": 8, "warmup_steps": 2, "log_every_steps": 1, "sample_tokens": 4, "seed": 7, "threads": 1}
        train["precision"] = "fp32"  # bfloat16 rounds each share of a gradient
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**sizes, **train, **options}.items()]
        head = ["train", str(text_file), "--recipe=classic", "--tokenizer=char", f"--out={out}", f"--steps={steps}"]
        return [*head, *flags]

    return make


@pytest.fixture(scope="session")
def trained(
    arguments: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, str], tuple[Path, list[Ended]]]:
    """Returns the run directory of so many processes, and how each ended; each kind is trained once."""
    done: dict[tuple[int, str], tuple[Path, list[Ended]]] = {}

    def train(world: int, parallel: str) -> tuple[Path, list[Ended]]:
        if (world, parallel) not in done:
            folder = tmp_path_factory.mktemp("my runs é")
            command = arguments(folder / "run", parallel=parallel)
            done[world, parallel] = folder / "run", run_together(command, world, folder / "log", before=log_batches)
        return done[world, parallel]

    return train


def losses(path: Path, name: str = "train_loss") -> np.ndarray:
    rows = read_metrics(RunDirectory(path).metrics)
    return np.array([row[name] for row in rows if row.get(name) is not None])


def last_arrays(path: Path) -> Mapping[str, np.ndarray]:
    snapshot, warnings = load_snapshot(RunDirectory(path))
    assert not warnings
    return {f"{group}/{name}": named[name] for group, named in snapshot.arrays.items() for name in named}


def batch_ids(folder: Path, world: int) -> np.ndarray:
    """The ids that all processes saw, `[step, sample, CONTEXT + 1]`: joined in the order of their ranks."""
    size = 8 // world
    parts = []
    for rank in range(world):
        flat = np.frombuffer((folder / "log" / f"ids-{rank}").read_bytes(), np.int64).reshape(STEPS, -1)
        inputs = flat[:, : size * CONTEXT].reshape(STEPS, size, CONTEXT)
        parts.append(np.concatenate([inputs, flat[:, size * CONTEXT :, None]], axis=2))
    return np.concatenate(parts, axis=1)


KINDS = [(1, "ddp"), (2, "ddp"), (4, "ddp"), (2, "fsdp")]


@pytest.mark.parametrize(("world", "parallel"), KINDS)
def test_every_number_of_processes_sees_the_same_batches(trained: Callable, world: int, parallel: str) -> None:
    one, many = (batch_ids(trained(n, p)[0].parent, n) for n, p in ((1, "ddp"), (world, parallel)))
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize(("world", "parallel"), KINDS[1:])
def test_losses_are_those_of_one_process(trained: Callable, world: int, parallel: str) -> None:
    alone, together = trained(1, "ddp")[0], trained(world, parallel)[0]
    assert len(losses(alone)) == STEPS
    np.testing.assert_allclose(losses(together), losses(alone), rtol=1e-6)
    np.testing.assert_allclose(losses(together, "val_loss"), losses(alone, "val_loss"), rtol=1e-6)
    np.testing.assert_allclose(losses(together, "grad_norm"), losses(alone, "grad_norm"), rtol=1e-5)


@pytest.mark.parametrize(("world", "parallel"), KINDS[1:])
def test_one_process_speaks_and_writes(trained: Callable, world: int, parallel: str) -> None:
    path, ended = trained(world, parallel)
    assert [each.code for each in ended] == [0] * world
    assert "best validation loss" in ended[0].out
    assert [each.out + each.err for each in ended[1:]] == [""] * (world - 1)
    assert len(RunDirectory(path).samples.read_text(encoding="utf-8").splitlines()) > 0
    assert not list(path.rglob("*.partial")) and not list(path.rglob(".metadata"))


@pytest.mark.parametrize(("parallel", "world", "number"), [("ddp", 4, signal.SIGINT), ("fsdp", 2, signal.SIGTERM)])
def test_a_signal_stops_all_after_one_step_and_the_rest_has_the_same_bits(
    arguments: Callable, trained: Callable, tmp_path: Path, parallel: str, world: int, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    crew = Crew(arguments(out, parallel=parallel), world, tmp_path / "log", before=go_slowly)
    crew.wait_until(lambda: RunDirectory(out).metrics.is_file() and len(read_metrics(RunDirectory(out).metrics)) > 2)
    hit = crew.processes[-1:] if number == signal.SIGTERM else [*crew.processes, *crew.processes]  # passed on: twice
    for process in hit:
        os.kill(process.pid or 0, number)
    ended = crew.wait()
    assert [each.code for each in ended] == [128 + number] * world
    assert f"Stopping after step {load_snapshot(RunDirectory(out))[0].step}" in ended[0].out
    assert load_snapshot(RunDirectory(out))[0].step < STEPS
    resumed = run_together(["train", "--resume", f"--out={out}"], world, tmp_path / "log")
    assert [each.code for each in resumed] == [0] * world
    whole, halves = last_arrays(trained(world, parallel)[0]), last_arrays(out)
    for name in whole:
        np.testing.assert_array_equal(whole[name], halves[name], err_msg=name)


def test_checkpoints_go_from_four_processes_to_two_to_one(
    arguments: Callable, trained: Callable, tmp_path: Path
) -> None:
    out = tmp_path / "my runs é"
    run_together(arguments(out, parallel="fsdp", pause_after_steps=10), 4, tmp_path / "log")
    files = sorted(path.name for path in (out / "checkpoints/step-000010").iterdir())
    assert files[:2] == ["optimizer-00001-of-00004.safetensors", "optimizer-00002-of-00004.safetensors"]
    resume = ["train", "--resume", f"--out={out}"]
    for world, steps in ((2, 20), (1, 30)):
        ended = run_together([*resume, f"--pause-after-steps={steps}"], world, tmp_path / "log")
        assert [each.code for each in ended] == [0] * world, ended
    ended = run_together([*resume, "--parallel=ddp"], 2, tmp_path / "log")
    assert [each.code for each in ended] == [0, 0], ended
    np.testing.assert_allclose(losses(out), losses(trained(1, "ddp")[0]), rtol=1e-6)


def test_an_error_in_one_process_is_said_once_and_ends_all(arguments: Callable, tmp_path: Path) -> None:
    ended = run_together(arguments(tmp_path / "run"), 2, tmp_path / "log", before=fail_in_the_second)
    assert [each.code for each in ended] == [1, 1]
    assert ended[1].err == "nextok: Cannot write the moon: it is full.\n"
    assert ended[0].err == ""


def test_an_error_of_all_is_said_once(arguments: Callable, tmp_path: Path) -> None:
    ended = run_together(arguments(tmp_path / "run", batch_size=9), 2, tmp_path / "log")
    assert [each.code for each in ended] == [2, 2]
    assert sorted(each.err for each in ended) == [
        "",
        "nextok: A batch of 9 sequences over 2 processes leaves 1. Use --batch-size 8 or 10, or 3, 9 processes.\n",
    ]
    assert not (tmp_path / "run").exists()


def test_a_killed_process_is_missed_in_one_sentence(arguments: Callable, tmp_path: Path) -> None:
    out = tmp_path / "run"
    crew = Crew(arguments(out), 2, tmp_path / "log", before=go_slowly)
    crew.wait_until(lambda: RunDirectory(out).metrics.is_file() and len(read_metrics(RunDirectory(out).metrics)) > 2)
    os.kill(crew.processes[1].pid or 0, signal.SIGKILL)
    ended = crew.wait()
    assert [each.code for each in ended] == [1, -signal.SIGKILL]
    assert ended[0].err.count("\n") == 1
    assert ended[0].err.startswith("nextok: Process 0 of 2 lost the others: one of them was killed")


def test_dropout_with_one_micro_batch_size_is_that_of_one_process(arguments: Callable, tmp_path: Path) -> None:
    for world in (1, 2):
        command = arguments(tmp_path / f"{world}", steps=5, dropout=0.5, micro_batch_size=2, sample_tokens=0)
        run_together(command, world, tmp_path / "log")
    np.testing.assert_allclose(losses(tmp_path / "2"), losses(tmp_path / "1"), rtol=1e-6)


def test_minutes_are_measured_together(arguments: Callable, tmp_path: Path) -> None:
    command = [each for each in arguments(tmp_path / "run", parallel="fsdp") if not each.startswith("--steps")]
    ended = run_together([*command, "--minutes=0.02", "--json"], 2, tmp_path / "log")
    assert [each.code for each in ended] == [0, 0], ended
    assert json.loads(ended[0].out)["step"] == RunDirectory(tmp_path / "run").read_run()["steps"]


@pytest.mark.slow
def test_torchrun_itself_starts_and_stops_it(arguments: Callable, tmp_path: Path) -> None:
    out = tmp_path / "my run é"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "nextok"]
    with (tmp_path / "printed").open("w", encoding="utf-8") as printed:
        started = subprocess.Popen([*torchrun, *arguments(out, steps=100_000)], stdout=printed, stderr=printed)
        log = RunDirectory(out).metrics
        deadline = time.monotonic() + 60
        while not (log.is_file() and len(read_metrics(log)) > 2) and time.monotonic() < deadline:
            time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        started.wait(60)
    text = (tmp_path / "printed").read_text(encoding="utf-8")
    assert f"Stopping after step {load_snapshot(RunDirectory(out))[0].step:,} (SIGTERM): saving." in text
    bad = subprocess.run([*torchrun, "train", "nowhere.txt", f"--out={tmp_path / 'b'}"], capture_output=True, text=True)
    assert bad.stderr.count("nextok: There is no file") == 1


# --- one process by itself


@pytest.mark.parametrize(
    ("batch_size", "world", "hint"),
    [
        (12, 5, "Use --batch-size 10 or 15, or 2, 3, 4, 6, 12 processes."),
        (3, 4, "Use --batch-size 4, or 3 processes."),
        (1, 2, "Use --batch-size 2."),
        (60, 7, "Use --batch-size 56 or 63, or 2, 3, 4, 5, 6, ..., 60 processes."),
    ],
)
def test_a_batch_that_does_not_divide_is_refused_with_what_would(batch_size: int, world: int, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        Processes(world=world).check_batch(batch_size)
    assert error.value.hint == hint
    assert f"A batch of {batch_size} sequences over {world} processes leaves {batch_size % world}." in str(error.value)


def test_shares_are_consecutive_and_cover_the_batch() -> None:
    shares = [Processes(rank=rank, world=4).share(12) for rank in range(4)]
    assert shares == [(0, 3), (3, 3), (6, 3), (9, 3)]


def test_alone_nothing_is_waited_for() -> None:
    with joined({}) as processes:
        assert processes is ALONE
    ALONE.check_batch(7)
    ALONE.wait_for("ever")
    assert (ALONE.total(2.5), ALONE.any(False), ALONE.gathered({"a": 1})) == (2.5, False, [{"a": 1}])
