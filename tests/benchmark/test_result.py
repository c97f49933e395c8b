"""The whole measurement: shares of limits, progress, and the object that is printed."""

import json
from dataclasses import replace

import pytest

from nextok.benchmark import Benchmark, MemoryReader, count_figures, find_subject, run_benchmark
from nextok.errors import ConfigError
from nextok.files import to_json


@pytest.fixture(scope="module")
def told() -> list[str]:
    """Returns what was told while measuring; filled by `benchmark`."""
    return []


@pytest.fixture(scope="module")
def benchmark(told: list[str]) -> Benchmark:
    """Returns a measurement of the smallest preset, too short to mean anything."""
    return run_benchmark(
        find_subject("lesson-a"),
        precisions=("fp32", "int4"),
        seconds=0.0,
        threads=1,
        reader=MemoryReader(1, buffer_bytes=1 << 20),
        on_figure=told.append,
    )


def test_as_many_figures_are_told_as_were_promised(benchmark: Benchmark, told: list[str]) -> None:
    assert len(told) == count_figures(find_subject("lesson-a"), ("fp32", "int4"))
    assert [speed.precision for speed in benchmark.speeds] == ["fp32", "int4"]


def test_shares_are_of_the_limit_that_was_measured_beside(benchmark: Benchmark) -> None:
    for number, speed in enumerate(benchmark.speeds):
        decoded = speed.streamed_bytes * speed.decoding[0].tokens_per_s
        assert benchmark.read_share(number) == decoded / benchmark.read_bytes_per_s[number]
    products = benchmark.limits.matmul_flops_per_s
    assert benchmark.prefill_share(0) == benchmark.speeds[0].prefill_flops_per_s / products["fp32"]
    assert benchmark.prefill_share(1) == benchmark.speeds[1].prefill_flops_per_s / products["bf16"]


def test_without_a_limit_there_is_no_share(benchmark: Benchmark) -> None:
    without = replace(benchmark, limits=replace(benchmark.limits, matmul_flops_per_s={"fp32": 1.0}))
    assert without.prefill_share(1) is None
    assert without.to_mapping()["precisions"][1]["share_of_matmul"] is None


def test_object_names_machine_date_model_and_every_figure(benchmark: Benchmark) -> None:
    found = json.loads(to_json(benchmark.to_mapping()))
    assert {"date", "version", "machine", "threads", "kernels", "model", "random_weights", "limits"} <= set(found)
    row = found["precisions"][0]
    assert row["share_of_read"] == benchmark.read_share(0)
    assert row["decoding"][0]["run"]["repeats"] == 3


@pytest.mark.parametrize(("load", "busy"), [(None, False), (0.1, False), (2.0, True)])
def test_a_busy_machine_is_said_to_be_so(benchmark: Benchmark, load: float | None, busy: bool) -> None:
    assert replace(benchmark, load_before=load).busy is busy


def test_what_does_not_fit_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextok.machine.available_memory_bytes", lambda: 1 << 10)
    told: list[str] = []
    with pytest.raises(ConfigError, match="memory are free"):
        run_benchmark(find_subject("nano"), seconds=0.0, on_figure=told.append)
    assert not told
