"""A hook that hands the lines of metrics to TensorBoard, trackio or wandb, which are loaded only when asked for.

None is told where to send anything: TensorBoard and trackio write to this machine, and wandb stays offline unless the
user's own WANDB_MODE says otherwise. A tracker that fails is left out with a warning; the run goes on.

`trackers.json` in the run directory keeps the run's name in them and how far they have come. A resumed run goes back to
its checkpoint and takes some steps again; what was handed on of those is not handed on twice.
"""

import contextlib
import importlib.util
import math
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.errors import MissingExtraError
from nextok.files import read_json, write_json
from nextok.train.events import Event, Finding, Logged, Message, Request, Sampled

Numbers = Mapping[str, float]
_PROJECT = "nextok"
_STATE = "trackers.json"


class Sink(Protocol):
    """One tracker, open."""

    def numbers(self, step: int, values: Numbers) -> None:
        """Takes the numbers of a step."""

    def text(self, step: int, name: str, text: str) -> None:
        """Takes a text, where the tracker has a place for texts."""

    def close(self) -> None:
        """Writes what is left."""


class TensorBoard:
    """Writes event files to `tensorboard/` in the run directory."""

    def __init__(self, run: RunDirectory, run_id: str, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional extra

        # The purge tells TensorBoard to forget what an earlier sitting wrote of the steps to come.
        purge_step = step + 1 if step else None
        self._writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=purge_step)

    def numbers(self, step: int, values: Numbers) -> None:
        """Adds a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def text(self, step: int, name: str, text: str) -> None:
        """Adds a text, shown as it is."""
        self._writer.add_text(name, "    " + text.replace("\n", "\n    "), step)

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


class Trackio:
    """Writes to trackio's own folder on this machine; `trackio show` opens it."""

    def __init__(self, run: RunDirectory, run_id: str, step: int) -> None:
        import trackio  # noqa: PLC0415 - an optional extra

        self._trackio = trackio
        trackio.init(project=_PROJECT, name=f"{run.path.name}-{run_id}", config=_options_of(run), resume="allow")

    def numbers(self, step: int, values: Numbers) -> None:
        """Adds a line."""
        self._trackio.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """Leaves texts out: trackio's curves have no place for them."""

    def close(self) -> None:
        """Writes what is left."""
        self._trackio.finish()


class Wandb:
    """Writes to `wandb/` in the run directory; `wandb sync` sends it on, if the user wants that."""

    def __init__(self, run: RunDirectory, run_id: str, step: int) -> None:
        import wandb  # noqa: PLC0415 - an optional extra

        self._run = wandb.init(
            project=_PROJECT,
            name=run.path.name,
            id=run_id,
            dir=str(run.path),
            config=_options_of(run),
            resume="allow",
            mode=os.environ.get("WANDB_MODE") or "offline",  # its own default sends everything to its makers
        )

    def numbers(self, step: int, values: Numbers) -> None:
        """Adds a line."""
        self._run.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """Leaves texts out: wandb's curves have no place for them."""

    def close(self) -> None:
        """Writes what is left."""
        self._run.finish()


_KINDS: dict[str, Callable[[RunDirectory, str, int], Sink]] = {
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": Wandb,
}
_TAKES_BACK = ("tensorboard",)  # can forget steps; the others only add


class Trackers:
    """The trackers of a run: a hook, and a context manager that opens and closes them.

    Args:
        names: Which.
        run: Directory of the run, with its `run.json`.
        step: Steps done before.
    """

    def __init__(self, names: Sequence[str], run: RunDirectory, step: int) -> None:
        self._names, self._run, self._step = tuple(dict.fromkeys(names)), run, step
        self._sinks: dict[str, Sink] = {}
        self._through: dict[str, int] = {}
        self._failures: list[Message] = []

    def __enter__(self) -> Self:
        if not self._names:
            return self
        state = _read_state(self._run.path) or {"id": uuid.uuid4().hex[:8], "through": {}}
        self._through = state["through"]
        for name in self._names:
            self._guard(name, lambda name=name: self._open(name, state["id"]))  # type: ignore[misc]
            self._through.setdefault(name, 0)
        write_json(self._run.path / _STATE, state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, sink in list(self._sinks.items()):
            self._guard(name, sink.close)

    def __call__(self, event: Event) -> Request | None:
        """Hands on what the event holds; tells of a tracker that failed."""
        if isinstance(event, Logged):
            self._hand_on(int(event.record["step"]), lambda sink, step: sink.numbers(step, _numbers(event.record)))
        elif isinstance(event, Sampled):
            self._hand_on(event.step, lambda sink, step: sink.text(step, "sample", event.text))
        elif isinstance(event, Finding):
            self._hand_on(event.step, lambda sink, step: sink.text(step, "finding", f"{event.text} {event.advice}"))
        else:
            return None
        news, self._failures = tuple(self._failures), []
        return Request(tell=news) if news else None

    def _open(self, name: str, run_id: str) -> None:
        self._sinks[name] = _KINDS[name](self._run, run_id, self._step)

    def _hand_on(self, step: int, give: Callable[[Sink, int], None]) -> None:
        for name, sink in list(self._sinks.items()):
            if name in _TAKES_BACK or step > self._through[name]:
                self._guard(name, lambda sink=sink: give(sink, step))  # type: ignore[misc]

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # they print; standard output is the command's own
                action()
        except Exception as error:  # whatever foreign code can raise; the run matters more
            self._sinks.pop(name, None)
            text = f"{name} failed and is left out from here on ({error!r}); metrics.jsonl has everything."
            self._failures.append(Message(text=text, warning=True))


def check_trackers(names: Sequence[str]) -> None:
    """Refuses a tracker whose package is not there, before anything is started.

    Raises:
        MissingExtraError: with the command that installs it.
    """
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # a mere folder of that name is no package: wandb leaves such behind
            raise MissingExtraError(f"--track {name} needs the package {name}.", "pip install 'nextok[track]'")


def note_tracked(run: RunDirectory) -> None:
    """Remembers how far the trackers have come, before a resumed run drops the metrics after its checkpoint."""
    state = _read_state(run.path)
    if state is None:
        return
    last = max((int(record.get("step") or 0) for record in read_metrics(run.metrics)), default=0)
    state["through"] = {name: max(step, last) for name, step in state["through"].items()}
    write_json(run.path / _STATE, state)


def _read_state(folder: Path) -> dict[str, Any] | None:
    path = folder / _STATE
    return read_json(path) if path.is_file() else None


def _options_of(run: RunDirectory) -> dict[str, Any]:
    record = run.read_run()
    return {name: record.get(name) for name in ("command", "seed", "steps", "options", "model")}


def _numbers(record: Mapping[str, object]) -> dict[str, float]:
    return {
        name: value
        for name, value in record.items()
        if name != "step" and isinstance(value, int | float) and math.isfinite(value)
    }
