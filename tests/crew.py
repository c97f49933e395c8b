"""Several processes that run one nextok command together, started as torchrun starts them, but fast.

torchrun imports torch in every process, which takes longer than these trainings. Here one server imports it and the
processes are forked from it. Where they meet is kept by this process, as torchrun's agent keeps it.
"""

import functools
import io
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from nextok.errors import DiskError

Step = Callable[..., Any]

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["nextok.cli.train", "nextok.report.plots", "torch.distributed.fsdp", __name__, "shares"]
)


@dataclass(frozen=True)
class Ended:
    """How one process ended."""

    code: int
    out: str
    err: str


class Crew:
    """Runs a command in `world` processes; `wait` returns how each ended."""

    def __init__(
        self,
        arguments: Sequence[str],
        world: int,
        folder: Path,
        *,
        before: Callable[[int, Path], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts them.

        Args:
            arguments: Of `nextok`.
            world: How many.
            folder: For what they print, and for `before`.
            before: Is called in each with its rank and the folder; a function of a module.
            environment: More variables.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        shared = {
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "HOME": os.environ["HOME"],
            **(environment or {}),
        }
        self.processes: list[BaseProcess] = []
        for rank in range(world):
            own = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = _SERVER.Process(target=_work, args=(rank, list(arguments), own, str(folder), before), daemon=True)
            process.start()
            self.processes.append(process)

    def wait(self, seconds: float = 60) -> list[Ended]:
        """Returns how each ended; fails if one does not."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        hanging = [rank for rank, process in enumerate(self.processes) if process.exitcode is None]
        for rank in hanging:
            self.processes[rank].kill()
        ended = [self._ended(rank) for rank in range(len(self.processes))]
        assert not hanging, f"processes {hanging} never ended: {ended}"
        return ended

    def wait_until(self, holds: Callable[[], bool], seconds: float = 30) -> None:
        """Waits until something is so, while the processes run."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"it never came to that: {self.wait(0.1)}"
            assert any(process.exitcode is None for process in self.processes), self.wait(1)
            time.sleep(0.02)

    def _ended(self, rank: int) -> Ended:
        code = self.processes[rank].exitcode
        texts = [(self.folder / f"{name}-{rank}").read_text(encoding="utf-8") for name in ("out", "err")]
        return Ended(-1 if code is None else code, *texts)


def run_together(arguments: Sequence[str], world: int, folder: Path, **more: object) -> list[Ended]:
    """Runs a command in so many processes to its end."""
    return Crew(arguments, world, folder, **more).wait()  # type: ignore[arg-type]


def call_together(
    function: Callable[..., dict[str, np.ndarray]], world: int, folder: Path, *arguments: object
) -> list[dict[str, np.ndarray]]:
    """Returns what a function of `Processes` and the arguments returns in each of so many connected processes."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    started = []
    for rank in range(world):
        answer = folder / f"answer-{rank}.npz"
        each = (function, rank, world, store.port, str(answer), arguments)
        process = _SERVER.Process(target=_call, args=each, daemon=True)
        process.start()
        started.append(process)
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0] * world
    return [dict(np.load(folder / f"answer-{rank}.npz")) for rank in range(world)]


def _call(
    function: Callable[..., dict[str, np.ndarray]],
    rank: int,
    world: int,
    port: int,
    answer: str,
    arguments: Sequence[object],
) -> None:
    from nextok.train import Processes

    torch.set_num_threads(1)
    store = dist.TCPStore("localhost", port, is_master=False)
    processes = Processes(rank=rank, world=world, local_rank=rank, local_world=world, store=store)
    processes.connect(torch.device("cpu"))
    np.savez(answer, **function(processes, *arguments))
    dist.barrier()
    dist.destroy_process_group()


def _work(
    rank: int,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    before: Callable[[int, Path], None] | None,
) -> None:
    from nextok.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w"), encoding="utf-8") for number in (1, 2))
    if before is not None:
        before(rank, Path(folder))
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


# --- what `before` may be: each changes this process's training loop


def log_batches(rank: int, folder: Path) -> None:
    """Writes the ids of every batch as bytes, one step after another."""
    stream = (folder / f"ids-{rank}").open("wb")

    def logged(step: Step, *arguments: Any, **more: Any) -> Any:
        for piece in arguments[3]:
            stream.write(piece.inputs_BT.tobytes() + piece.targets_BT[:, -1].tobytes())
        stream.flush()
        return step(*arguments, **more)

    _around_steps(logged)


def go_slowly(rank: int, folder: Path) -> None:
    """Leaves a test the time to send a signal."""

    def slow(step: Step, *arguments: Any, **more: Any) -> Any:
        time.sleep(0.05)
        return step(*arguments, **more)

    _around_steps(slow)


def fail_in_the_second(rank: int, folder: Path) -> None:
    """Lets the process of rank 1 fail in its fourth step, as a full disk there would."""
    steps = itertools.count()

    def failing(step: Step, *arguments: Any, **more: Any) -> Any:
        if rank == 1 and next(steps) == 3:
            raise DiskError("Cannot write the moon: it is full.")
        return step(*arguments, **more)

    _around_steps(failing)


def _around_steps(change: Callable[..., Any]) -> None:
    from nextok.train import loop

    loop.train_step = functools.partial(change, loop.train_step)
