"""The processes that train one model together: who they are, what they add up, and how they end together.

`torchrun` starts them and tells each its rank. The first one prints and writes; the rest are silent. Small numbers and
texts go between them here, always by gloo on the CPU, so that no accelerator is waited for; gradients go in
`gradients.py`. Nothing is pickled: texts are JSON.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from nextok.errors import ConfigError, NextokError

_LONGEST_SILENCE = timedelta(minutes=30)  # one process saves or samples, the others wait
_GRACE_S = 3.0  # for the process that failed first to say so, before those that lost it speak
_POLL_S = 0.05
_ENDED_BY = "nextok/ended-by"


@dataclass(frozen=True, kw_only=True, slots=True)
class Processes:
    """This process among those that train together. Alone, every sum is its own value and nobody is waited for."""

    rank: int = 0
    """Which of them this is; 0 leads: it alone writes files, prints and samples."""
    world: int = 1
    """How many there are."""
    local_rank: int = 0
    """Which of those on this machine this is: the number of its GPU."""
    local_world: int = 1
    """How many are on this machine, sharing its cores."""
    store: dist.Store | None = None
    """Where they meet; none for a process that is alone."""

    @property
    def leads(self) -> bool:
        """Returns whether this process writes, prints and samples."""
        return self.rank == 0

    def connect(self, device: torch.device) -> torch.device:
        """Opens the ways to the other processes and returns the device of this one.

        Raises:
            ConfigError: if this machine has fewer GPUs than processes.
        """
        if self.store is None:
            return device
        if device.type == "cuda":
            if self.local_rank >= torch.cuda.device_count():
                raise ConfigError(
                    f"{self.local_world} processes were started on a machine with {torch.cuda.device_count()} GPUs.",
                    "Give torchrun one process a GPU with --nproc-per-node=gpu, or use --device cpu.",
                )
            device = torch.device("cuda", self.local_rank)
            torch.cuda.set_device(device)
        backends = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(
            backends, store=self.store, rank=self.rank, world_size=self.world, timeout=_LONGEST_SILENCE
        )
        return device

    def share(self, count: int) -> tuple[int, int]:
        """Returns where this process's part of so many samples begins, and how many it has."""
        size = count // self.world
        return self.rank * size, size

    def check_batch(self, batch_size: int) -> None:
        """Refuses a batch that the processes cannot share evenly.

        Raises:
            ConfigError: with batch sizes and numbers of processes that would do.
        """
        rest = batch_size % self.world
        if not rest:
            return
        sizes = [size for size in (batch_size - rest, batch_size - rest + self.world) if size]
        divisors = [str(count) for count in range(2, batch_size + 1) if batch_size % count == 0]
        shown = divisors if len(divisors) <= 6 else [*divisors[:5], "...", divisors[-1]]
        other = f", or {', '.join(shown)} processes" if divisors else ""
        raise ConfigError(
            f"A batch of {batch_size} sequences over {self.world} processes leaves {rest}.",
            f"Use --batch-size {' or '.join(map(str, sizes))}{other}.",
        )

    def total(self, value: float) -> float:
        """Returns the sum of everybody's value, the same bits for all."""
        if self.store is None:
            return value
        values = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(values)
        return float(values[0])

    def any(self, holds: bool) -> bool:  # noqa: FBT001 - reads as a sentence
        """Returns whether it holds for one of them at least."""
        return self.total(float(holds)) > 0

    def gathered(self, value: Any) -> list[Any]:
        """Returns everybody's value, in the order of the ranks; values are those of JSON."""
        if self.store is None:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor([len(data)]))
        longest = max(int(size) for size in sizes)
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes]
        dist.all_gather(texts, torch.nn.functional.pad(data, (0, longest - len(data))))
        return [json.loads(text[: int(size)].numpy().tobytes()) for text, size in zip(texts, sizes, strict=True)]

    def from_leader(self, value: Any) -> Any:
        """Returns the value that the leading process has, whatever this one has."""
        return self.gathered(value if self.leads else None)[0]

    def announce(self, what: str) -> None:
        """Tells those that wait for it that something is done."""
        if self.store is not None:
            self.store.set(f"nextok/{what}", "done")

    def wait_for(self, what: str) -> None:
        """Waits until it is announced, however long that takes: reading a corpus may take hours.

        Raises:
            SystemExit: if another process has failed meanwhile; that one has said why.
        """
        while self.store is not None and not self.store.check([f"nextok/{what}"]):
            _leave_if_ended(self.store)
            time.sleep(_POLL_S)


ALONE = Processes()
"""A process that trains by itself."""


@contextmanager
def joined(environment: Mapping[str, str]) -> Iterator[Processes]:
    """Yields the processes that torchrun started this one among; `ALONE` if it was started by itself.

    On the way out each waits for the slowest, so that none is ended while another still writes. If one fails, that one
    raises its error and the others leave without a word, with its exit code.

    Args:
        environment: The environment variables: torchrun sets RANK, WORLD_SIZE, LOCAL_RANK and where they meet.

    Raises:
        NextokError: if a process was lost without saying why.
        SystemExit: if another one failed.
    """
    if "RANK" not in environment:
        yield ALONE
        return
    processes = _met(environment)
    try:
        yield processes
        _leave_together(processes)
    except BaseException as error:
        _end_all(processes, error)
        raise
    if dist.is_initialized():
        dist.destroy_process_group()


def _met(environment: Mapping[str, str]) -> Processes:
    numbers = {name: int(environment.get(name, 0)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    rank, world = numbers["RANK"], max(1, numbers["WORLD_SIZE"])
    store, _, _ = next(dist.rendezvous("env://", rank, world, timeout=_LONGEST_SILENCE))
    return Processes(
        rank=rank,
        world=world,
        local_rank=numbers["LOCAL_RANK"],
        local_world=max(1, numbers["LOCAL_WORLD_SIZE"]),
        store=dist.PrefixStore(environment.get("TORCHELASTIC_RESTART_COUNT", "0"), store),
    )


def _leave_together(processes: Processes) -> None:
    store = processes.store
    assert store is not None
    if store.add("nextok/leaving", 1) == processes.world:
        processes.announce("left")
    processes.wait_for("left")
    if not processes.leads:
        store.add("nextok/gone", 1)
        return
    deadline = time.monotonic() + _GRACE_S  # without torchrun the store is this process's, and goes with it
    while store.add("nextok/gone", 0) < processes.world - 1 and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _end_all(processes: Processes, error: BaseException) -> None:
    """Returns if this process was the first to fail, and has to say so; otherwise leaves quietly."""
    store, lost = processes.store, _is_loss(error)
    assert store is not None
    deadline = time.monotonic() + (_GRACE_S if lost else 0)
    while time.monotonic() < deadline:
        _leave_if_ended(store)
        time.sleep(_POLL_S)
    mine = f"{processes.rank} {_exit_code(error)}"
    if store.compare_set(_ENDED_BY, "", mine).decode() != mine:
        _leave_if_ended(store)
    if lost:
        raise NextokError(
            f"Process {processes.rank} of {processes.world} lost the others: one of them was killed, or its machine "
            f"cannot be reached ({str(error).strip().splitlines()[0][:200]}).",
            "Look for the first process that ended (memory is the usual reason), then go on with --resume.",
        ) from error


def _leave_if_ended(store: dist.Store) -> None:
    if store.check([_ENDED_BY]):
        raise SystemExit(int(store.get(_ENDED_BY).decode().split()[1]))


def _is_loss(error: BaseException) -> bool:
    """Says whether an error only tells that somebody else is gone. Gloo's are plain RuntimeErrors."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    return 130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)
