"""Trackers get every line once, however often a run was stopped, and none of them can end it."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.errors import MissingExtraError
from nextok.train import Event, Logged, Message, RunOptions, resume, run, saved_options
from nextok.train.trackers import Trackers, check_trackers, note_tracked

MakeOptions = Callable[..., RunOptions]


class StandIn(types.ModuleType):
    """A module with the documented face of trackio and wandb, which writes down what is asked of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = types.SimpleNamespace(name=name, origin=f"{name}.py")  # type: ignore[assignment]
        self.opened: list[dict[str, Any]] = []
        self.lines: list[tuple[int, dict[str, float]]] = []
        self.finished = 0

    def init(self, project: str, **settings: Any) -> "StandIn":
        print("* hello from the tracker")
        self.opened.append({"project": project, **settings})
        return self

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self.lines.append((step, metrics))

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture(params=["trackio", "wandb"])
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    module = StandIn(request.param)
    monkeypatch.setitem(sys.modules, request.param, module)
    return module


def test_lines_come_once_with_their_steps_and_nothing_goes_to_standard_output(
    make_options: MakeOptions, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    options = make_options(train={"track": (stand_in.__name__,)})
    run(options, cache=options.out)
    rows = read_metrics(RunDirectory(options.out).metrics)
    assert [step for step, _ in stand_in.lines] == [row["step"] for row in rows] == list(range(1, 21))
    assert stand_in.lines[-1][1] == {name: value for name, value in rows[-1].items() if name != "step"}
    assert stand_in.finished == 1
    (opened,) = stand_in.opened
    assert opened["project"] == "nextok"
    assert opened["config"]["options"]["train"]["lr"] == options.train.lr
    shown = capsys.readouterr()
    assert "hello" not in shown.out
    assert "hello" in shown.err


def test_a_resumed_run_goes_on_in_the_same_run_without_a_line_twice(
    make_options: MakeOptions, stand_in: StandIn
) -> None:
    options = make_options(train={"track": (stand_in.__name__,), "eval_every_steps": 8})

    def killed(event: Event) -> None:
        if isinstance(event, Logged) and event.record["step"] == 13:
            raise RuntimeError("the power is gone")

    for _ in range(2):
        with pytest.raises(RuntimeError):
            if (options.out / "run.json").exists():
                resume(saved_options(options.out), hooks=[killed])
            else:
                run(options, cache=options.out, hooks=[killed])
    resume(saved_options(options.out))
    assert [step for step, _ in stand_in.lines] == list(range(1, 21))
    names = [(each["name"], each.get("id"), each["resume"]) for each in stand_in.opened]
    assert len(names) == 3
    assert len(set(names)) == 1
    assert names[0][2] == "allow"


def test_wandb_is_offline_unless_the_user_says_otherwise(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = StandIn("wandb")
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run(make_options("one", steps=1, train={"track": ("wandb",)}), cache=Path())
    monkeypatch.setenv("WANDB_MODE", "online")
    run(make_options("two", steps=1, train={"track": ("wandb",)}), cache=Path())
    assert [each["mode"] for each in module.opened] == ["offline", "online"]
    assert [Path(each["dir"]).name for each in module.opened] == ["one", "two"]


def test_a_tracker_that_fails_costs_its_lines_and_not_the_run(
    make_options: MakeOptions, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log(metrics: dict[str, float], step: int) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(stand_in, "log", log)
    told: list[Event] = []
    result = run(make_options(train={"track": (stand_in.__name__,)}), cache=Path(), hooks=[told.append])
    assert result.step == 20
    warnings = [each.text for each in told if isinstance(each, Message) and each.warning and "failed" in each.text]
    assert len(warnings) == 1
    assert "no route" in warnings[0]


def test_a_package_that_is_not_there_is_named_before_anything_starts(
    make_options: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wandb").mkdir()  # a folder that wandb leaves behind is no package
    for name in ("wandb", "trackio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingExtraError, match=r"--track wandb needs the package wandb.*nextok\[track\]"):
        check_trackers(["wandb"])
    options = make_options(train={"track": ("trackio",)})
    with pytest.raises(MissingExtraError):
        run(options, cache=Path())
    assert not options.out.exists()


def test_tensorboard_shows_each_step_once_after_a_resume(make_options: MakeOptions) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train = {"track": ("tensorboard",), "eval_every_steps": 8, "sample_tokens": 4}
    options = make_options(train=train | {"pause_after_steps": 10})
    run(options, cache=options.out)
    with Trackers(["tensorboard"], RunDirectory(options.out), 10) as trackers:  # a sitting that was killed
        for step in (11, 12):
            trackers(Logged(record={"step": step, "train_loss": 99.0, "grad_norm": None}))
    resume(saved_options(options.out))
    events = accumulator.EventAccumulator(str(options.out / "tensorboard"))
    events.Reload()
    curve = events.Scalars("train_loss")
    assert [each.step for each in curve] == list(range(1, 21))
    rows = read_metrics(RunDirectory(options.out).metrics)
    assert [each.value for each in curve] == pytest.approx([row["train_loss"] for row in rows])
    assert "sample/text_summary" in events.Tags()["tensors"]


def test_without_trackers_nothing_is_written(make_options: MakeOptions) -> None:
    options = make_options(steps=1)
    run(options, cache=options.out)
    note_tracked(RunDirectory(options.out))
    assert not (options.out / "trackers.json").exists()
