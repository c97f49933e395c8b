"""Measured once: what is written down is believed, and what cannot be read or written is no obstacle."""

import json
from pathlib import Path

import numpy as np
import pytest

from nextok import backends
from nextok.backends import fastest
from nextok.decode import Slots
from nextok.spec import ModelConfig

CONFIG = ModelConfig(n_layers=1, d_model=8, n_heads=1, context=4, vocab_size=5)


class Slow(Slots):
    """A decoder whose steps take a while, on a clock of its own."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        super().__init__(1, CONFIG.context, CONFIG.vocab_size)
        self._clock, self._seconds = clock, seconds

    def prefill(self, slot, ids_T, *, all_positions=False):
        self._lengths[slot] += len(ids_T)
        return np.zeros(CONFIG.vocab_size, np.float32)

    def step(self, slots, ids):
        self._clock[0] += self._seconds
        return np.stack([self.prefill(slot, [id]) for slot, id in zip(slots, ids, strict=True)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(backends.time, "perf_counter", lambda: now[0])
    return now


def makers(clock: list[float], torch: float, numba: float) -> dict:
    return {"torch": lambda: Slow(clock, torch), "numba": lambda: Slow(clock, numba)}


@pytest.mark.parametrize(("torch", "numba", "best"), [(2.0, 1.0, "numba"), (1.0, 2.0, "torch")])
def test_the_faster_one_is_taken_and_written_down(clock, tmp_path: Path, torch: float, numba: float, best: str) -> None:
    record = tmp_path / "new folder" / "backends.json"
    assert fastest(CONFIG, makers(clock, torch, numba), record) == best
    ((key, entry),) = json.loads(record.read_text(encoding="utf-8")).items()
    assert "cores" in key and "parameters" in key
    assert entry == {"fastest": best, "torch_seconds_per_token": torch, "numba_seconds_per_token": numba}


def test_what_was_measured_is_not_measured_again(clock, tmp_path: Path) -> None:
    record = tmp_path / "backends.json"
    fastest(CONFIG, makers(clock, 1.0, 2.0), record)
    none = {name: pytest.fail for name in ("torch", "numba")}
    assert fastest(CONFIG, none, record) == "torch"


def test_another_size_is_measured_for_itself(clock, tmp_path: Path) -> None:
    record = tmp_path / "backends.json"
    larger = ModelConfig(n_layers=8, d_model=64, n_heads=1, context=4, vocab_size=500)
    assert fastest(CONFIG, makers(clock, 1.0, 2.0), record) == "torch"
    assert fastest(larger, makers(clock, 2.0, 1.0), record) == "numba"
    assert len(json.loads(record.read_text(encoding="utf-8"))) == 2


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', '{"x": {"fastest": "abacus"}}', "\x00"])
def test_a_record_of_other_content_is_no_obstacle(clock, tmp_path: Path, content: str) -> None:
    record = tmp_path / "backends.json"
    record.write_text(content, encoding="utf-8")
    assert fastest(CONFIG, makers(clock, 1.0, 2.0), record) == "torch"


def test_where_nothing_can_be_written_it_is_measured_each_time(clock, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for torch, best in ((1.0, "torch"), (3.0, "numba")):
        assert fastest(CONFIG, makers(clock, torch, 2.0), tmp_path / "file" / "backends.json") == best
