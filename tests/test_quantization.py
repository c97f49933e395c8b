"""What fewer bits cost: figures that can be checked against the definition, on text of the model's own."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import nextok
from nextok.engine import pack_model
from nextok.errors import ConfigError, CorpusError
from nextok.interop import write_directory
from nextok.model import build, weight_arrays
from nextok.quantization import compare, quantize
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer

CONFIG = ModelConfig(n_layers=2, d_model=32, n_heads=2, context=16, vocab_size=257)
TEXT = "It was the best of times, it was the worst of times. " * 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_directory(tmp_path / "model", CONFIG, weight_arrays(build(CONFIG, 1)), byte_tokenizer())
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "model"


@pytest.mark.parametrize("precision", ["bf16", "int8", "int4"])
def test_the_report_is_what_the_loss_over_windows_gives(folder: Path, precision: str) -> None:
    report = quantize(folder, precision, text=folder.parent / "text.txt")
    ids_N = torch.tensor(list(TEXT.encode()))
    model, nats, same = nextok.load(folder).model, 0.0, []
    packed = nextok.load(folder, precision=precision)
    for begin in range(0, len(ids_N) - 1, 16):
        window_T = ids_N[begin : begin + 17]
        logits_TV = model(window_T[None, :-1])[0]
        nats += F.cross_entropy(logits_TV, window_T[1:], reduction="sum").item()
        found_TV = packed.logits(window_T[:-1].numpy())
        same += (logits_TV.argmax(-1).numpy() == found_TV.argmax(-1)).tolist()
    assert report.tokens == len(ids_N) - 1 == len(same)
    assert report.perplexity_fp32 == pytest.approx(math.exp(nats / report.tokens), rel=1e-4)
    if precision != "bf16":  # whose torch model rounds in other places
        assert report.same_choice == pytest.approx(np.mean(same), abs=0.02)
    assert 0 <= report.kl_nats < 0.01
    assert abs(report.perplexity_change) < 0.05
    assert report.bytes < report.bytes_fp32
    assert Path(report.path).is_file()


def test_a_model_is_no_way_from_itself() -> None:
    packed = pack_model(CONFIG, weight_arrays(build(CONFIG, 1)).items(), "fp32")
    found = compare(packed, packed, np.arange(40))
    assert (found.tokens, found.divergence, found.same) == (39, 0.0, 39)
    assert found.nats == found.nats_exact


def test_the_tokens_measured_are_told_and_limited(folder: Path) -> None:
    told: list[int] = []
    report = quantize(folder, "int8", text=folder.parent / "text.txt", limit_tokens=40, on_tokens=told.append)
    assert sum(told) == report.tokens == 40


def test_a_run_is_measured_on_its_own_validation_split(tmp_path: Path) -> None:
    from nextok.train import run, run_options

    (tmp_path / "book.txt").write_text(TEXT * 20, encoding="utf-8")
    options = {"sources": [str(tmp_path / "book.txt")], "out": str(tmp_path / "run"), "steps": 2, "tokenizer": "byte"}
    run(run_options(options | {"preset": "nano"}), cache=tmp_path)
    assert quantize(tmp_path / "run", "int4", limit_tokens=100).tokens == 100


def test_what_cannot_be_measured_is_said(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no text of its own"):
        quantize(folder, "int8")
    with pytest.raises(ConfigError, match="limit_tokens = 1"):
        quantize(folder, "int8", limit_tokens=1)
    with pytest.raises(CorpusError, match="Cannot read"):
        quantize(folder, "int8", text=folder / "absent")
    (folder / "one").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="1 tokens"):
        quantize(folder, "int8", text=folder / "one")
    assert not (folder / "packed").exists()
