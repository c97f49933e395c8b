"""`nextok import`: other programs' models become folders that the other commands take."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from nextok.interop import write_directory
from nextok.interop.names import places
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer

from .conftest import Nextok

CONFIG = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=12, vocab_size=257, mlp="gelu")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as nanoGPT writes it."""
    weights = weight_arrays(build(CONFIG, 1))
    tensors = {
        f"_orig_mod.transformer.{part}": torch.from_numpy(np.array(array))
        for name, place in places("nanogpt", CONFIG).items()
        for part, array in place.split(weights[name])
    }
    args = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 12, "bias": True, "vocab_size": 257, "dropout": 0.0}
    torch.save({"model": tensors, "model_args": args, "iter_num": 3}, tmp_path / "ckpt.pt")
    return tmp_path / "ckpt.pt"


def test_a_checkpoint_becomes_a_folder_that_generates(nextok: Nextok, checkpoint: Path) -> None:
    code, out, err = nextok("import", str(checkpoint), "--out", "runs/mine", "--tokenizer", "byte")
    assert (code, err) == (0, "")
    assert "differ by at most 0" in out
    code, out, _ = nextok("generate", "runs/mine", "--prompt", "It", "--max-new-tokens", "3")
    assert code == 0
    assert out.startswith("It")


def test_a_checkpoint_is_not_run_as_it_is(nextok: Nextok, checkpoint: Path) -> None:
    for verb in (["generate", str(checkpoint), "--prompt", "It"], ["info", str(checkpoint)]):
        code, _, err = nextok(*verb)
        assert code == 2
        assert f"nextok import {checkpoint} --out" in err


def test_gguf_becomes_a_folder_and_the_object_tells_it(nextok: Nextok, trained: Path) -> None:
    nextok("export", str(trained), "--to", "gguf", "--out", "a.gguf")
    code, out, err = nextok("import", "a.gguf", "--out", "back", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["source"], report["path"], report["family"]) == ("a.gguf", "back", "gpt2")
    assert report["comparison"]["max_logit_difference"] <= 1e-4
    assert (
        report["config"]["vocab_size"] == json.loads(nextok("info", str(trained), "--json")[1])["config"]["vocab_size"]
    )


def test_a_model_of_no_family_says_that_nextok_alone_reads_it(nextok: Nextok, tmp_path: Path) -> None:
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=12, vocab_size=257, norm_placement="after")
    write_directory(tmp_path / "a", config, weight_arrays(build(config, 1)), byte_tokenizer())
    code, out, _ = nextok("import", "a", "--out", "b")
    assert code == 0
    assert "nextok alone reads it" in out
    assert "norm_placement = 'after'" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["absent.pt", "--out", "a"], "There is no model at absent.pt."),
        (["ckpt.pt", "--out", "a", "--tokenizer", "char"], "made from a text"),
        (["ckpt.pt", "--out", "a", "--tokenizer", "bpe:300"], "made from a text"),
        (["ckpt.pt", "--out", "a", "--n-heads", "5"], "n_head"),
        (["ckpt.pt", "--out", "."], "already holds other files"),
        (["ckpt.pt"], "--out is missing"),
    ],
)
def test_what_cannot_be_imported_is_said(arguments: list[str], told: str, nextok: Nextok, checkpoint: Path) -> None:
    code, _, err = nextok("import", *arguments)
    assert code == 2
    assert told in err
    assert not Path("a").exists()
