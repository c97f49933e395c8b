"""Snapshots: whole or absent under kills, full disks, interrupts; the last and the best kept; cut ones passed over."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.checkpoint import RunDirectory, Snapshot, load_snapshot, save_snapshot, saved_steps
from nextok.errors import CheckpointError, DiskError

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and limits")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def snapshot(step: int, value: float | None = None, size: int = 10) -> Snapshot:
    fill = float(step) if value is None else value
    return Snapshot(
        step=step,
        arrays={"weights": {"w": np.full(size, fill, np.float32)}, "optimizer": {"m": np.full(size, -fill)}},
        state={"position": step * 8, "fill": fill},
    )


def save(run: RunDirectory, *steps: int, keep_last: int = 9, best: int = -1) -> None:
    for step in steps:
        save_snapshot(run, snapshot(step), keep_last=keep_last, best=step == best)


def folders(run: RunDirectory) -> list[str]:
    return sorted(item.name for item in run.checkpoints.iterdir() if item.is_dir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_a_snapshot_comes_back_as_saved(run: RunDirectory) -> None:
    save(run, 500)
    back, warnings = load_snapshot(run)
    assert warnings == []
    assert (back.step, back.state) == (500, {"position": 4000, "fill": 500.0})
    assert {stem: list(arrays) for stem, arrays in back.arrays.items()} == {"weights": ["w"], "optimizer": ["m"]}
    assert back.arrays["weights"]["w"].dtype == np.float32
    assert back.arrays["optimizer"]["m"].tolist() == [-500.0] * 10
    assert (run.checkpoints / "LATEST").read_text(encoding="utf-8") == "step-000500\n"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé☃\n"),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), items, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(state=st.dictionaries(st.text("abc", max_size=3), PLAIN, max_size=3))
def test_plain_state_comes_back_exactly(state: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    run = RunDirectory(tmp_path_factory.mktemp("state"))
    save_snapshot(run, Snapshot(step=1, arrays={}, state=state), keep_last=1, best=False)
    assert load_snapshot(run)[0].state == state


def test_numpy_scalars_in_the_state_become_plain_numbers(run: RunDirectory) -> None:
    state = {"seed": np.uint64(2**64 - 1), "loss": np.float32(0.1), "none": np.float64("nan")}
    save_snapshot(run, Snapshot(step=1, arrays={}, state=state), keep_last=1, best=False)
    assert load_snapshot(run)[0].state == {"seed": 2**64 - 1, "loss": float(np.float32(0.1)), "none": None}


def test_an_object_in_the_state_is_refused_and_the_old_snapshot_stays(run: RunDirectory) -> None:
    @dataclass
    class Options:
        lr: float = 0.1

    save(run, 1)
    with pytest.raises(TypeError, match="Options"):
        save_snapshot(run, Snapshot(step=2, arrays={}, state={"options": Options()}), keep_last=1, best=False)
    assert load_snapshot(run)[0].step == 1
    assert folders(run) == ["step-000001"]


def test_saving_needs_no_evaluation_and_best_then_falls_back_to_latest(run: RunDirectory) -> None:
    save(run, 100, 200)
    back, warnings = load_snapshot(run, "best")
    assert back.step == 200
    assert len(warnings) == 1
    assert "No evaluation" in warnings[0]


def test_latest_best_and_any_step_can_be_asked_for(run: RunDirectory) -> None:
    save(run, 100, 200, 1_500_000, best=200)
    assert [load_snapshot(run, which)[0].step for which in ("latest", "best", 100)] == [1_500_000, 200, 100]
    assert saved_steps(run) == [100, 200, 1_500_000]


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_pruning_keeps_the_last_k_and_the_best(run: RunDirectory, keep_last: int) -> None:
    save(run, 100, 200, 300, 400, 500, keep_last=keep_last, best=200)
    last = [f"step-000{step}" for step in (300, 400, 500)][-keep_last:]
    assert folders(run) == ["step-000200", *last]


def test_the_best_is_let_go_when_a_better_one_comes(run: RunDirectory) -> None:
    save(run, 100, 200, keep_last=1, best=100)
    save(run, 300, keep_last=1, best=300)
    assert folders(run) == ["step-000300"]


def test_pruning_never_removes_the_one_just_saved(run: RunDirectory) -> None:
    save(run, 300, 400, 500, keep_last=3)
    save(run, 350, keep_last=1)  # set back to 300 by the user, the later ones are another future
    assert folders(run) == ["step-000350"]
    assert load_snapshot(run)[0].step == 350


def test_after_a_set_back_the_abandoned_future_is_not_resumed_from(run: RunDirectory) -> None:
    save(run, 300, 400, 500)
    save(run, 350)
    cut(run.checkpoints / "step-000350" / "weights.safetensors")
    assert load_snapshot(run)[0].step == 300


def test_the_same_content_saved_twice_adds_nothing(run: RunDirectory) -> None:
    save(run, 100)
    folder = save_snapshot(run, snapshot(100), keep_last=2, best=True)
    assert folder.name == "step-000100"
    assert folders(run) == ["step-000100"]
    assert load_snapshot(run, "best")[1] == []


def test_a_step_saved_again_with_other_content_wins_and_the_old_one_goes(run: RunDirectory) -> None:
    save(run, 50, 100)
    for value in (1.5, 2.5):
        save_snapshot(run, snapshot(100, value), keep_last=5, best=False)
    for which in ("latest", 100):
        assert load_snapshot(run, which)[0].arrays["weights"]["w"][0] == 2.5
    assert len(folders(run)) == 2
    assert saved_steps(run) == [50, 100]


def test_a_best_of_the_same_step_outlives_a_second_save(run: RunDirectory) -> None:
    save(run, 100, best=100)
    save_snapshot(run, snapshot(100, 7.0), keep_last=1, best=False)
    assert load_snapshot(run, "best")[0].state["fill"] == 100.0
    assert load_snapshot(run, "latest")[0].state["fill"] == 7.0


def test_a_step_whose_folder_is_cut_can_be_saved_again(run: RunDirectory) -> None:
    save(run, 100)
    cut(run.checkpoints / "step-000100" / "optimizer.safetensors")
    save(run, 100)
    back, warnings = load_snapshot(run)
    assert (back.step, warnings) == (100, [])
    assert len(folders(run)) == 1


def break_nothing_there(folder: Path) -> None:
    shutil.rmtree(folder)


def break_file_missing(folder: Path) -> None:
    (folder / "optimizer.safetensors").unlink()


def break_file_cut(folder: Path) -> None:
    cut(folder / "weights.safetensors")


def break_file_emptied(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(b"")


def break_one_bit(folder: Path) -> None:
    path = folder / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def break_state_missing(folder: Path) -> None:
    (folder / "state.json").unlink()


def break_state_cut(folder: Path) -> None:
    cut(folder / "state.json")
    cut(folder / "state.json")


def break_state_foreign(folder: Path) -> None:
    (folder / "state.json").write_text(
        '{"schema": 1, "files": {"../x.safetensors": {}}, "step": 1, "state": {}}', "utf-8"
    )


BREAKS = [
    break_nothing_there,
    break_file_missing,
    break_file_cut,
    break_file_emptied,
    break_one_bit,
    break_state_missing,
    break_state_cut,
    break_state_foreign,
]


@pytest.mark.parametrize("break_it", BREAKS)
@pytest.mark.parametrize("which", ["latest", "best"])
def test_a_damaged_snapshot_is_passed_over_with_a_warning_that_names_both(
    run: RunDirectory, break_it: Any, which: Any
) -> None:
    save(run, 100, 200, 300, best=300)
    break_it(run.checkpoints / "step-000300")
    back, warnings = load_snapshot(run, which)
    assert back.step == 200
    assert len(warnings) == 1
    assert "step-000300" in warnings[0]
    assert warnings[0].endswith("Using step-000200.")


def test_every_damaged_snapshot_on_the_way_is_named(run: RunDirectory) -> None:
    save(run, 100, 200, 300)
    for step in (200, 300):
        break_file_cut(run.checkpoints / f"step-000{step}")
    back, warnings = load_snapshot(run)
    assert back.step == 100
    assert len(warnings) == 2
    assert "weights.safetensors has" in warnings[0]


@pytest.mark.parametrize("pointer", ["", "../../etc", "step-1", "\x00", "step-000200 extra"])
def test_a_damaged_pointer_falls_back_to_the_newest_whole_one(run: RunDirectory, pointer: str) -> None:
    save(run, 100, 200)
    (run.checkpoints / "LATEST").write_text(pointer, encoding="utf-8")
    back, warnings = load_snapshot(run)
    assert back.step == 200
    assert len(warnings) == 1


def test_without_any_whole_snapshot_the_error_says_why(run: RunDirectory) -> None:
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        load_snapshot(run)
    save(run, 100)
    break_file_cut(run.checkpoints / "step-000100")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors has"):
        load_snapshot(run)


def test_a_step_never_saved_is_an_error_that_lists_those_that_were(run: RunDirectory) -> None:
    save(run, 100, 200)
    with pytest.raises(CheckpointError, match="step 150") as caught:
        load_snapshot(run, 150)
    assert "100, 200" in caught.value.hint


class Interrupting(dict[str, Any]):
    """Arrays that raise while they are being written."""

    def items(self) -> Any:
        yield "w", np.ones(10)
        raise KeyboardInterrupt


def test_an_interrupt_in_mid_save_leaves_everything_as_it_was(run: RunDirectory) -> None:
    save(run, 100)
    with pytest.raises(KeyboardInterrupt):
        save_snapshot(run, Snapshot(step=200, arrays={"weights": Interrupting()}, state={}), keep_last=1, best=True)
    assert sorted(item.name for item in run.checkpoints.iterdir()) == ["LATEST", "step-000100"]
    assert load_snapshot(run)[0].step == 100


@pytest.fixture
def small_files() -> Iterator[None]:
    """Lets this process write files of at most 40,000 bytes."""
    resource = pytest.importorskip("resource", reason="needs POSIX limits")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_the_old_snapshot_and_says_so(run: RunDirectory, small_files: None) -> None:
    save(run, 100)
    with pytest.raises(DiskError, match="the disk is full") as caught:
        save_snapshot(run, snapshot(200, size=20_000), keep_last=1, best=True)
    assert "step-000200" in caught.value.message
    assert "Free some space" in caught.value.hint
    assert sorted(item.name for item in run.checkpoints.iterdir()) == ["LATEST", "step-000100"]
    assert load_snapshot(run)[0].step == 100


KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from nextok.checkpoint import RunDirectory, save_snapshot
sys.path.insert(0, sys.argv[2])
from test_snapshots import snapshot

CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}  # the events Python reports to an audit hook

def kill_at(call):
    events = itertools.count(1)
    def hook(event, _):
        if event in CHANGES and next(events) == call:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

for call in itertools.count(1):
    run = RunDirectory(Path(sys.argv[1]) / str(call))
    save_snapshot(run, snapshot(100), keep_last=1, best=False)
    child = os.fork()
    if child == 0:
        kill_at(call)
        save_snapshot(run, snapshot(int(sys.argv[3]), 7.0), keep_last=1, best=False)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        break
"""


@POSIX
@pytest.mark.parametrize("second_step", [100, 200])
def test_a_kill_at_any_change_on_disk_during_a_save_leaves_a_whole_snapshot(tmp_path: Path, second_step: int) -> None:
    command = [sys.executable, "-c", KILLED, tmp_path, Path(__file__).parent, str(second_step)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    runs = [RunDirectory(path) for path in tmp_path.iterdir()]
    assert len(runs) > 8
    fills = set()
    for run in runs:
        back, warnings = load_snapshot(run)
        assert warnings == []
        fills.add(back.state["fill"])
        save_snapshot(run, snapshot(300), keep_last=1, best=False)
        assert sorted(item.name for item in run.checkpoints.iterdir()) == ["LATEST", "step-000300"]
    assert fills == {100.0, 7.0}


WRITER = """
import sys
from pathlib import Path
from nextok.checkpoint import RunDirectory, save_snapshot
sys.path.insert(0, sys.argv[2])
from test_snapshots import snapshot
for step in range(2, 10_000):
    save_snapshot(RunDirectory(Path(sys.argv[1])), snapshot(step, size=300_000), keep_last=1, best=False)
    print(step, flush=True)
"""


@POSIX
def test_a_kill_from_outside_leaves_the_last_reported_snapshot_or_the_next(run: RunDirectory) -> None:
    save(run, 1)
    command = [sys.executable, "-c", WRITER, run.path, Path(__file__).parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        reported = int(child.stdout.readline())
        child.kill()
        lines = child.stdout.read().split()
    reported = int(lines[-1]) if lines else reported
    back, warnings = load_snapshot(run)
    assert (back.step in (reported, reported + 1), warnings) == (True, [])
    assert back.arrays["weights"]["w"][-1] == back.step
