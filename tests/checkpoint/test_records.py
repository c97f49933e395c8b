"""Metrics and samples: strict JSON lines that survive kills, set-backs, odd numbers and odd text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.checkpoint import MetricsLog, append_samples, read_metrics
from nextok.errors import CheckpointError, DiskError

FINITE = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.lists(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), FINITE, max_size=4), max_size=4)
STEPS = st.fixed_dictionaries({"step": st.integers(0, 10**6), "text": st.text("añ€😀\n", max_size=5)})


@pytest.fixture
def log(tmp_path: Path) -> MetricsLog:
    return MetricsLog(tmp_path / "metrics.jsonl")


@settings(deadline=None)
@given(records=RECORDS)
def test_records_come_back_in_order_and_exactly(
    records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = MetricsLog(tmp_path_factory.mktemp("log") / "metrics.jsonl")
    for record in records:
        log.append(record)
    assert read_metrics(log.path) == records


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float64("-inf")])
def test_a_number_that_is_not_finite_is_written_as_null(log: MetricsLog, value: Any) -> None:
    log.append({"step": np.int64(3), "train_loss": value, "lr": np.float32(0.5)})
    line = log.path.read_text(encoding="utf-8")
    assert json.loads(line, parse_constant=pytest.fail) == {"step": 3, "train_loss": None, "lr": 0.5}


@settings(deadline=None)
@given(records=st.lists(STEPS, min_size=1, max_size=3))
def test_a_kill_at_any_byte_costs_one_line_and_never_glues_two(
    records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = MetricsLog(tmp_path_factory.mktemp("cut") / "metrics.jsonl")
    for record in records:
        log.append(record)
    data = log.path.read_bytes()
    begin = data[:-1].rfind(b"\n") + 1
    for end in range(begin, len(data)):
        log.path.write_bytes(data[:end])
        whole = records if end == len(data) - 1 else records[:-1]  # only the newline is missing: the record is whole
        assert read_metrics(log.path) == whole
        log.append({"step": -1})
        assert read_metrics(log.path) == [*whole, {"step": -1}]


def test_a_cut_line_longer_than_a_piece_is_removed_too(log: MetricsLog) -> None:
    log.append({"step": 1})
    with log.path.open("ab") as stream:
        stream.write(b'{"text": "' + b"a" * 200_000)
    log.append({"step": 2})
    assert read_metrics(log.path) == [{"step": 1}, {"step": 2}]


def test_setting_back_drops_what_came_after_and_nothing_else(log: MetricsLog) -> None:
    for record in (
        {"note": "start"},
        {"step": 1},
        {"step": 2, "val_loss": 1.0},
        {"step": 2},
        {"step": 3},
        {"step": None},
    ):
        log.append(record)
    log.keep_through(2)
    kept = [{"note": "start"}, {"step": 1}, {"step": 2, "val_loss": 1.0}, {"step": 2}, {"step": None}]
    assert read_metrics(log.path) == kept
    log.append({"step": 3})
    assert read_metrics(log.path) == [*kept, {"step": 3}]


def test_setting_back_writes_nothing_where_nothing_is_dropped(log: MetricsLog) -> None:
    log.keep_through(5)
    assert not log.path.exists()
    log.append({"step": 5})
    before = log.path.stat()
    log.keep_through(5)
    assert log.path.stat() == before


def test_a_run_without_metrics_has_none(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "absent.jsonl") == []


@pytest.mark.parametrize("line", [b"not json", b"5", b'{"a": NaN}', b"\xff"])
def test_a_damaged_line_is_a_plain_error_that_names_the_file(log: MetricsLog, line: bytes) -> None:
    log.path.write_bytes(line + b'\n{"step": 1}\n')
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        read_metrics(log.path)


def test_a_log_that_cannot_be_written_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        MetricsLog(tmp_path / "file" / "metrics.jsonl").append({"step": 1})
    with pytest.raises(DiskError):
        append_samples(tmp_path / "file" / "samples.txt", 1, "text")


@pytest.mark.parametrize("text", ["※ naïve 日本 😀", "lone \ud800 surrogate", "a\r\nb\x00c", ""])
def test_samples_are_utf8_whatever_the_text(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii:strict")
    append_samples(tmp_path / "samples.txt", 500, text)
    append_samples(tmp_path / "samples.txt", 1000, "next")
    expected = f"=== step 500 ===\n{text}\n\n=== step 1000 ===\nnext\n\n".replace("\ud800", "?")
    assert (tmp_path / "samples.txt").read_bytes().decode("utf-8") == expected
