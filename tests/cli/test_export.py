"""`nextok export`: what it writes, what it says of engines, and how it ends."""

import json
import sys
from pathlib import Path

import pytest

from nextok.cli import export
from nextok.conversion.engines import EngineReport, Finding, Trial

from .conftest import Nextok


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("transformers", "xllamacpp", "ctranslate2", "vllm"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(("to", "name"), [("hf", "folder"), ("gguf", "model.gguf")])
def test_an_export_says_that_it_computes_the_same_and_generates(
    to: str, name: str, nextok: Nextok, trained: Path
) -> None:
    code, out, err = nextok("export", str(trained), "--to", to, "--out", name)
    assert (code, err) == (0, "")
    assert "logits at 64 positions  differ by at most 0" in out
    assert "100.0%" in out
    expected = nextok("generate", str(trained), "--prompt", "abc", "--temperature", "0")
    assert nextok("generate", name, "--prompt", "abc", "--temperature", "0") == expected
    report = json.loads(nextok("info", name, "--json")[1])
    assert report["parameters_in_file"] == report["parameters"]


def test_the_object_has_everything(nextok: Nextok, trained: Path, no_engine: None) -> None:
    flags = ["--to", "gguf", "--out", "a.gguf", "--precision", "q8_0", "--check", "llama.cpp", "--json"]
    code, out, err = nextok("export", str(trained), *flags)
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["format"], report["precision"], report["family"]) == ("gguf", "q8_0", "gpt2")
    assert report["bytes"] == Path("a.gguf").stat().st_size
    assert report["comparison"]["mean_kl_nats"] > 0
    [check] = report["checks"]
    assert (check["engine"], check["verdict"], check["failed"], check["version"]) == ("llama.cpp", "works", False, None)


def test_an_engine_that_is_not_installed_gets_its_rules_and_how_to_install_it(
    nextok: Nextok, trained: Path, no_engine: None
) -> None:
    flags = [each for name in ("transformers", "llama.cpp") for each in ("--check", name)]
    code, out, _ = nextok("export", str(trained), "--to", "hf", "--out", "a", *flags)
    assert code == 0
    assert "transformers: works" in out
    assert "Not tried: it is not installed here (pip install xllamacpp)." in out


def test_an_engine_that_cannot_load_it_ends_with_1(nextok: Nextok, trained: Path, no_engine: None) -> None:
    code, out, _ = nextok("export", str(trained), "--to", "hf", "--out", "a", "--check", "vllm")
    assert code == 1
    assert "vllm: will not load" in out
    assert "d_head = 8" in out
    assert Path("a", "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("trial", "code", "told"),
    [
        (Trial(prompts=2, tokens=32, equal_tokens=32, max_logprob_difference=4e-7), 0, "32 of 32 greedy tokens"),
        (Trial(problem="It writes nonsense."), 1, "Tried with 1.2, and it failed. It writes nonsense."),
    ],
)
def test_a_trial_is_told(
    trial: Trial, code: int, told: str, nextok: Nextok, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = EngineReport(
        engine="vllm", findings=(Finding("works", "Fine."),), version="1.2", install="pip install vllm", trial=trial
    )
    monkeypatch.setattr(export, "check_engine", lambda *_, **__: report)
    ended, out, _ = nextok("export", str(trained), "--to", "hf", "--out", "a", "--check", "vllm")
    assert ended == code
    assert told in out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--to", "hf", "--out", "a", "--check", "lama.cpp"], "Did you mean 'llama.cpp'?"),
        (["--to", "hf", "--out", "a", "--precision", "f16"], "written in f32, not in f16"),
        (["--to", "onnx", "--out", "a"], "invalid choice 'onnx'"),
        (["--to", "hf", "--out", "."], "already holds other files"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    flags: list[str], told: str, nextok: Nextok, trained: Path
) -> None:
    Path("mine.txt").write_text("mine", "utf-8")
    code, _, err = nextok("export", str(trained), *flags)
    assert code == 2
    assert told in err
    assert [path.name for path in Path().iterdir()] == ["mine.txt"]
