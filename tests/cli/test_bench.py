"""`nextok bench`: limits of the machine and speed of a model, as tables and as one object."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nextok.benchmark import (
    MemoryReader,
    find_subject,
    result,
    run_benchmark,
)  # compiled kernels are kept by the import
from nextok.cli import bench

from .conftest import Nextok

SHORT = ("--seconds", "0.001", "--threads", "1")


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads a buffer of a megabyte, so that nothing here means anything."""
    monkeypatch.setattr(result, "MemoryReader", partial(MemoryReader, buffer_bytes=1 << 20))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns how to say what load the machine had before."""
    return lambda load: monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))


def test_a_preset_is_measured_at_every_precision(nextok: Nextok, busy: Callable[[float], None]) -> None:
    busy(0.0)
    code, out, _ = nextok("bench", "lesson-a", *SHORT)
    assert code == 0
    for shown in (
        "GB/s",
        "GFLOP/s fp32",
        "lesson-a",
        "random weights",
        "fp32",
        "bf16",
        "int8",
        "int4",
        "prompt of 8 tokens",
    ):
        assert shown in out
    assert "busy" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_folder_is_measured_as_one_object(nextok: Nextok, trained: Path) -> None:
    code, out, _ = nextok("bench", str(trained), "--precision", "int8", "--json", *SHORT)
    assert code == 0
    found = json.loads(out)
    assert [row["precision"] for row in found["precisions"]] == ["int8"]
    assert (found["random_weights"], found["threads"]) == (False, 1)
    assert found["precisions"][0]["decoding"][0]["tokens_per_s"] > 0


def test_precisions_are_named_one_by_one(nextok: Nextok) -> None:
    out = nextok("bench", "lesson-a", "--precision", "int4", "--precision", "fp32", "--json", *SHORT)[1]
    assert [row["precision"] for row in json.loads(out)["precisions"]] == ["int4", "fp32"]


def test_a_busy_machine_is_told(nextok: Nextok, busy: Callable[[float], None]) -> None:
    busy(3.5)
    assert "The machine was busy (load 3.5 before)" in nextok("bench", "lesson-a", "--precision", "fp32", *SHORT)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "seconds = 0.0 is not a time above 0"),
        (["--seconds", "inf"], "seconds = inf"),
        (["--threads", "-1"], "threads = -1"),
        (["--precision", "int3"], "int3"),
        (["runs/none"], "There is no model at runs/none"),
    ],
)
def test_what_cannot_be_measured_is_refused(nextok: Nextok, arguments: list[str], said: str) -> None:
    code, _, err = nextok("bench", *arguments)
    assert code == 2
    assert said in err


def test_a_figure_that_memory_forbids_is_a_dash() -> None:
    measured = run_benchmark(find_subject("lesson-a"), precisions=("fp32", "int8"), seconds=0.0, threads=1)
    first, second = measured.speeds
    fewer = replace(measured, speeds=(first, replace(second, decoding=second.decoding[:1])))
    rows = bench._rows(fewer)
    assert len(rows[0]) == len(rows[1]) == len(bench._columns(fewer))
    assert rows[1][4:6] == (None, None)
