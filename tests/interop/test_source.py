"""What lies at a path is told by its content, and what cannot be used is said in one sentence."""

import json
import struct
from pathlib import Path

import pytest
import torch

from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.interop import Hints, kind_of, open_model, open_runnable, write_directory
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import byte_tokenizer, char_tokenizer

SAFETENSORS = json.dumps({"a": {}}).encode()


def safetensors_start(length: int) -> bytes:
    return struct.pack("<Q", length) + b'{"__metadata__":{}' + b" " * length


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"GGUF\x03\0\0\0", "gguf"), (b"PK\x03\x04....", "torch"), (b"\x80\x02\x8a\nl\xfc\x9cF", "torch")],
)
def test_files_are_told_by_their_first_bytes_whatever_their_name_is(tmp_path: Path, start: bytes, kind: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(start)
    assert kind_of(path) == kind
    assert kind_of(tmp_path) == "directory"


@pytest.mark.parametrize("length", [0x80, 0x280, 0x480, 1000])  # the first three start as a pickle does
def test_weights_alone_are_no_model(tmp_path: Path, length: int) -> None:
    path = tmp_path / "ckpt.pt"
    path.write_bytes(safetensors_start(length))
    with pytest.raises(CheckpointError, match="holds weights alone.*the folder that has config.json"):
        kind_of(path)


@pytest.mark.parametrize("content", [b"", b"x", b"\x80", b"\x80\x09", b"It was a book.", b"\0" * 20])
def test_any_other_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="no model that nextok can read"):
        open_model(path)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    for path in (tmp_path / "absent", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match="There is no model at"):
            open_model(path)


@pytest.fixture
def folder(tmp_path: Path, random_weights) -> Path:
    config = ModelConfig(n_layers=1, d_model=8, n_heads=2, context=8, vocab_size=300)
    write_directory(tmp_path / "model", config, random_weights(config), byte_tokenizer())
    return tmp_path / "model"


def test_a_directory_comes_with_its_tokenizer_and_weights_in_order(folder: Path) -> None:
    stored = open_model(folder)
    assert stored.tokenizer is not None
    assert (stored.config.vocab_size, stored.tokenizer.vocab_size) == (300, 257)
    assert [name for name, _ in stored.arrays] == list(parameter_shapes(stored.config))
    (folder / "tokenizer.json").unlink()
    assert open_runnable(folder).tokenizer is None


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    char_tokenizer([chr(0x4E00 + place) for place in range(301)], end_of_text=False).save(folder / "tokenizer.json")
    with pytest.raises(TokenizerError, match="embedding rows"):
        open_model(folder)


def test_hints_are_for_checkpoints_alone(folder: Path) -> None:
    for hints in (Hints(n_heads=2), Hints(mlp="gelu"), Hints(meta=folder / "meta.pkl")):
        with pytest.raises(ConfigError, match="says itself what it is"):
            open_model(folder, hints)


def test_a_checkpoint_is_imported_before_it_is_run(tmp_path: Path) -> None:
    path = tmp_path / "ckpt.pt"
    torch.save({"a": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match=r"imported before it is used. nextok import .*ckpt.pt --out runs/NAME"):
        open_runnable(path)


@pytest.mark.parametrize("written", ["<|turn|>", {"content": "<|turn|>", "lstrip": False}])
def test_a_text_ends_where_the_folder_says_it_does(written, tmp_path, random_weights):
    config = ModelConfig(n_layers=1, d_model=8, n_heads=1, context=4, vocab_size=258)
    write_directory(tmp_path, config, random_weights(config), byte_tokenizer())
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    content["added_tokens"].append({**content["added_tokens"][0], "id": 257, "content": "<|turn|>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    named = open_model(tmp_path).tokenizer.end_of_text
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": written}), encoding="utf-8")
    other = open_model(tmp_path).tokenizer
    assert other.token_bytes(other.end_of_text) == b"<|turn|>"
    assert other.end_of_text != named
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<absent>"}), encoding="utf-8")
    assert open_model(tmp_path).tokenizer.end_of_text == named
