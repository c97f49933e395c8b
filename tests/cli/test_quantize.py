import json
from pathlib import Path

import pytest

from nextok.cli.main import main
from nextok.interop import write_directory
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer

CONFIG = ModelConfig(n_layers=1, d_model=32, n_heads=2, context=16, vocab_size=257)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_directory(tmp_path / "my model", CONFIG, weight_arrays(build(CONFIG, 1)), byte_tokenizer())
    (tmp_path / "text.txt").write_text("It was the best of times. " * 9, encoding="utf-8")
    return tmp_path / "my model"


def test_a_model_is_packed_and_its_cost_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(folder.parent / "text.txt")
    assert main(["quantize", str(folder), "--precision", "int4", "--text", text]) == 0
    shown = capsys.readouterr().out
    for part in ("int4.safetensors", "bits a weight", "perplexity", "change", "nats a token", "% of tokens"):
        assert part in shown
    assert main(["generate", str(folder), "--prompt", "It", "--precision", "int4", "--max-new-tokens", "2"]) == 0


def test_json_is_one_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(folder.parent / "text.txt")
    assert main(["quantize", str(folder), "--precision", "int8", "--text", text, "--json", "--limit-tokens", "50"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == 50
    assert report["precision"] == "int8"
    assert {"bytes", "bytes_fp32", "kl_nats", "perplexity_change", "same_choice"} <= report.keys()


def test_without_text_it_says_how_to_give_some(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", str(folder), "--precision", "int8"]) == 2
    assert "--text FILE" in capsys.readouterr().err
