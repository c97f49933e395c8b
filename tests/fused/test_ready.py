"""Kernels are compiled apart, once, and a machine where that cannot be done goes on all the same."""

import subprocess
from pathlib import Path

import pytest

from nextok.fused import make_ready, ready


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ready, "cache_folder", lambda room: tmp_path)
    return tmp_path


def test_what_is_ready_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "ready-fp32").touch()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    make_ready("fp32", lambda: pytest.fail("said so"))


def test_what_is_not_ready_is_compiled_once_and_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def stand_in(command: list[str], **_: object) -> None:
        assert command[1:] == ["-m", "nextok.fused.ready", "bf16"]
        ready.main("bf16")

    monkeypatch.setattr(subprocess, "run", stand_in)
    for _ in range(2):
        make_ready("bf16", lambda: said.append("once"))
    assert said == ["once"]
    assert (place / "ready-bf16").exists()


@pytest.mark.parametrize("error", [FileNotFoundError("no python"), subprocess.TimeoutExpired("python", 1)])
def test_no_second_process_is_no_error(place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    make_ready("fp32")
    assert not (place / "ready-fp32").exists()


def test_nowhere_to_keep_anything_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(room: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(ready, "cache_folder", homeless)
    make_ready("fp32", lambda: pytest.fail("there is no place to compile into"))
