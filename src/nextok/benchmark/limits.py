"""What this machine can do at most: bytes read a second, and operations a second of large matrix products.

Torch is loaded only when a limit is measured: it has the fastest products of most machines, and those of bfloat16.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from nextok import machine
from nextok.benchmark.reading import MemoryReader
from nextok.benchmark.timing import time_work

Matmul = Literal["fp32", "bf16"]
MATMULS: tuple[Matmul, ...] = ("fp32", "bf16")
_SIZE = 1536


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The figures that others are shares of."""

    read_bytes_per_s: float
    """Of the fastest way to read memory, its median."""
    read_way: str
    """That way."""
    read_bytes_per_s_by_way: Mapping[str, float] = field(default_factory=dict)
    """All that were tried."""
    matmul_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """By number format, fp32 and bf16; without torch only fp32."""


def measure_limits(
    reader: MemoryReader,
    *,
    seconds: float = 2.0,
    threads: int | None = None,
    size: int = _SIZE,
    on_figure: Callable[[str], object] | None = None,
) -> Limits:
    """Returns the limits of this machine.

    Args:
        reader: The buffer to read.
        seconds: Budget of each figure.
        threads: Cores that torch multiplies with. Default: those this process may use.
        size: Rows and columns of the matrices.
        on_figure: Called with the name of each figure when it has been measured.
    """
    tell = on_figure or (lambda _: None)
    reads = {}
    for way in reader.ways:
        reads[way] = reader.bytes / reader.time(way, seconds).median_s
        tell(f"reading: {way}")
    best = max(reads, key=lambda way: reads[way])
    products: dict[str, float] = {}
    for kind in MATMULS:
        flops_per_s = matmul_flops_per_s(kind, seconds=seconds, threads=threads, size=size)
        if flops_per_s is not None:
            products[kind] = flops_per_s
        tell(f"matrix products: {kind}")
    return Limits(
        read_bytes_per_s=reads[best],
        read_way=best,
        read_bytes_per_s_by_way=reads,
        matmul_flops_per_s=products,
    )


def matmul_flops_per_s(
    kind: Matmul, *, seconds: float = 1.0, threads: int | None = None, size: int = _SIZE
) -> float | None:
    """Returns operations a second of a large square product, by the fastest library here; None where none has it.

    Args:
        kind: The number format: fp32, or bf16, which NumPy does not have.
        seconds: Budget of each library.
        threads: Cores that torch uses; NumPy's library takes what it was started with.
        size: Rows and columns of the matrices.
    """
    times = []
    if kind == "fp32":
        a_NN = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
        times.append(time_work(lambda: a_NN @ a_NN, seconds).median_s)
    if importlib.util.find_spec("torch"):
        times.append(_torch_seconds(kind, size, seconds, threads or machine.usable_cores()))
    return 2 * size**3 / min(times) if times else None


def _torch_seconds(kind: Matmul, size: int, seconds: float, threads: int) -> float:
    torch: Any = importlib.import_module("torch")  # a second to load, which what needs no limit need not wait for
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a_NN = torch.randn(size, size).to({"fp32": torch.float32, "bf16": torch.bfloat16}[kind])
        return time_work(lambda: a_NN @ a_NN, seconds).median_s
    finally:
        torch.set_num_threads(before)
