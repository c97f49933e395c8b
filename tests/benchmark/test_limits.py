"""The machine's limits: the fastest of several ways, and matrix products with and without torch."""

import importlib.util

import pytest

from nextok.benchmark import MATMULS, MemoryReader, matmul_flops_per_s, measure_limits
from nextok.benchmark.timing import Timing

NAMES = ["reading: int64 xor", "reading: float32 sum", "reading: float32 tiles times a vector"]


class FakeReader(MemoryReader):
    """Reads 300 bytes in 3, 1 and 2 seconds."""

    def __init__(self) -> None:
        super().__init__(1, buffer_bytes=1)
        self.bytes = 300

    def time(self, way: str, seconds: float) -> Timing:
        taken = {"int64 xor": 3.0, "float32 sum": 1.0, "float32 tiles times a vector": 2.0}[way]
        return Timing(median_s=taken, fastest_s=taken, slowest_s=taken, repeats=3)


def test_the_fastest_way_to_read_is_the_limit() -> None:
    told: list[str] = []
    limits = measure_limits(FakeReader(), seconds=0.0, size=32, on_figure=told.append)
    assert (limits.read_bytes_per_s, limits.read_way) == (300.0, "float32 sum")
    assert limits.read_bytes_per_s_by_way["int64 xor"] == 100.0
    assert told == [*NAMES, "matrix products: fp32", "matrix products: bf16"]
    assert set(limits.matmul_flops_per_s) == set(MATMULS)


def test_products_count_two_operations_a_multiplication(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing(median_s=0.5, fastest_s=0.5, slowest_s=0.5, repeats=3)
    monkeypatch.setattr("nextok.benchmark.limits.time_work", lambda *_: timing)
    assert matmul_flops_per_s("fp32", size=10) == 4000.0


def test_without_torch_there_is_no_limit_for_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    assert matmul_flops_per_s("bf16", seconds=0.0, size=16) is None
    assert (matmul_flops_per_s("fp32", seconds=0.0, size=16) or 0) > 0
    assert set(measure_limits(FakeReader(), seconds=0.0, size=16).matmul_flops_per_s) == {"fp32"}


def test_torch_keeps_the_threads_it_had() -> None:
    import torch

    before = torch.get_num_threads()
    matmul_flops_per_s("bf16", seconds=0.0, threads=before + 1, size=16)
    assert torch.get_num_threads() == before
