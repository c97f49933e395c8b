"""The check of an engine: what is started, with which files, and what is said when it is not there."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.conversion import export_model
from nextok.conversion.engines import ENGINES, check, check_engine
from nextok.conversion.engines.engine import Answer, Request
from nextok.errors import CheckpointError, ConfigError, NextokError
from nextok.interop import kind_of

from .conftest import ALIEN, CONFIGS, Folder

Watch = Callable[[str], list[Request]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Puts an engine in place that answers nothing right, and keeps what it was asked."""

    def install(name: str) -> list[Request]:
        asked: list[Request] = []

        def call(function: str, request: Request) -> list[Answer]:
            asked.append({**request, "path": kind_of(Path(request["path"]))})
            return [{"prompt_tokens": 99, "ids": [], "logprobs": []} for _ in request["prompts"]]

        for module in ENGINES[name].modules:
            monkeypatch.setitem(sys.modules, module, sys)  # a module that has a __spec__
        monkeypatch.setattr(check.child, "call", call)
        return asked

    return install


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("stored", ["directory", "gguf"])
def test_an_engine_gets_the_format_it_reads(
    name: str, stored: str, folder_of: Folder, watch: Watch, tmp_path: Path
) -> None:
    path = folder_of(CONFIGS["gpt2"])
    if stored == "gguf":
        path = export_model(path, tmp_path / "model.gguf", to="gguf").path
    before = sorted(tmp_path.rglob("*"))
    asked = watch(name)
    report = check_engine(name, path)
    assert [request["path"] for request in asked] == ["gguf" if name == "llama.cpp" else "directory"]
    assert report.trial is not None
    assert "as 99 tokens" in report.trial.problem
    assert report.failed
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_is_not_installed_is_told_by_its_rules(
    name: str, folder_of: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, ENGINES[name].modules[0], None)
    report = check_engine(name, folder_of(CONFIGS["gpt2"]))
    assert (report.version, report.trial, report.failed, report.verdict) == (None, None, False, "works")
    assert report.install == f"pip install {' '.join(ENGINES[name].modules)}"


@pytest.mark.parametrize("name", ENGINES)
def test_what_will_not_load_is_not_started(name: str, folder_of: Folder, watch: Watch) -> None:
    asked = watch(name)
    report = check_engine(name, folder_of(ALIEN))
    assert (report.failed, report.trial, asked) == (True, None, [])


def test_an_engine_that_fails_is_told_in_a_sentence(
    folder_of: Folder, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object) -> None:
        raise NextokError("It ended by signal 6: what a pity")

    watch("llama.cpp")
    monkeypatch.setattr(check.child, "call", call)
    report = check_engine("llama.cpp", folder_of(CONFIGS["llama"]))
    assert report.trial is not None
    assert report.trial.problem == "It could not run the model. It ended by signal 6: what a pity"


def test_an_unknown_engine_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no engine 'lama.cpp'.*Did you mean 'llama.cpp'"):
        check_engine("lama.cpp", tmp_path)
    with pytest.raises(CheckpointError):
        check_engine("vllm", tmp_path / "absent")
