"""The whole measurement: limits, then each precision with the read speed measured again beside it."""

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import nextok
from nextok import machine
from nextok.benchmark.limits import MATMULS, Limits, measure_limits
from nextok.benchmark.reading import MemoryReader
from nextok.benchmark.speed import Speed, cases, measure_speed
from nextok.benchmark.subject import Subject
from nextok.engine import PRECISIONS, Precision, kernels
from nextok.spec import count

_BUSY = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A model's speed on a machine, and what the machine can do."""

    date: str
    """When it was begun, with the time zone."""
    version: str
    """Of nextok."""
    machine: dict[str, object]
    """Of `nextok.machine.describe`."""
    threads: int
    """Cores used."""
    kernels: str
    """The kind of instructions that the decoder was compiled to."""
    load_before: float | None
    """Processes that wanted to run in the minute before; None where the system does not tell."""
    model: str
    """The preset or the path."""
    random_weights: bool
    """Whether the weights mean nothing."""
    parameters: int
    """All trained numbers."""
    limits: Limits
    """Of the machine."""
    read_bytes_per_s: tuple[float, ...]
    """The fastest way to read, measured again beside each of the speeds."""
    speeds: tuple[Speed, ...]
    """A precision each."""

    @property
    def busy(self) -> bool:
        """Whether others used the machine just before, so that all figures may be too low."""
        return self.load_before is not None and self.load_before > _BUSY * self.threads

    def read_share(self, number: int) -> float:
        """Returns the part of the read speed at which one stream of a precision reads weights."""
        return self.speeds[number].decode_bytes_per_s / self.read_bytes_per_s[number]

    def prefill_share(self, number: int) -> float | None:
        """Returns prefill as a part of the products of fp32, for other precisions of bf16; None without a limit."""
        speed = self.speeds[number]
        limit = self.limits.matmul_flops_per_s.get("fp32" if speed.precision == "fp32" else "bf16")
        return None if limit is None else speed.prefill_flops_per_s / limit

    def to_mapping(self) -> dict[str, Any]:
        """Returns plain values with units in their names."""
        known = {name: value for name, value in asdict(self).items() if name not in ("speeds", "read_bytes_per_s")}
        rows = [
            {
                **asdict(speed),
                "read_bytes_per_s": self.read_bytes_per_s[number],
                "share_of_read": self.read_share(number),
                "share_of_matmul": self.prefill_share(number),
            }
            for number, speed in enumerate(self.speeds)
        ]
        return {**known, "precisions": rows}


def run_benchmark(
    subject: Subject,
    *,
    precisions: Sequence[Precision] = PRECISIONS,
    seconds: float = 2.0,
    threads: int | None = None,
    reader: MemoryReader | None = None,
    on_figure: Callable[[str], object] | None = None,
) -> Benchmark:
    """Returns the limits of this machine and the speed of a model at each precision.

    Args:
        subject: The model.
        precisions: Those to measure.
        seconds: Budget of each figure; packing and compiling come on top.
        threads: Cores to use. Default: those this process may use.
        reader: The buffer that the read limit is measured on. Default: one far larger than the caches.
        on_figure: Called with the name of each figure when it has been measured.

    Raises:
        ConfigError: if the model does not fit into the memory that is free.
    """
    for precision in precisions:
        subject.check_memory(precision)
    date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    load, cores = _load(), threads or machine.usable_cores()
    reader = reader or MemoryReader(cores)
    limits = measure_limits(reader, seconds=seconds, threads=cores, on_figure=on_figure)
    reads, speeds = [], []
    for precision in precisions:
        # a shared machine's memory is faster in one minute than in the next
        reads.append(reader.bytes / reader.time(limits.read_way, seconds).median_s)
        packed = subject.pack(precision)
        speeds.append(measure_speed(packed, seconds=seconds, threads=cores, on_figure=on_figure))
        del packed
    return Benchmark(
        date=date,
        version=nextok.__version__,
        machine=machine.describe(),
        threads=cores,
        kernels=kernels(),
        load_before=load,
        model=subject.name,
        random_weights=subject.random,
        parameters=count(subject.config).parameters,
        limits=limits,
        read_bytes_per_s=tuple(reads),
        speeds=tuple(speeds),
    )


def count_figures(subject: Subject, precisions: Sequence[Precision], ways: int = 3) -> int:
    """Returns how often `on_figure` will be called."""
    return ways + len(MATMULS) + len(precisions) * (1 + len(cases(subject.config)))


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
