"""Every way into a model, given files that run code when they are opened carelessly: none of it ever runs."""

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import nextok
from nextok.checkpoint import RunDirectory, load_snapshot, read_weights
from nextok.errors import NextokError
from nextok.interop import (
    kind_of,
    open_model,
    read_config,
    read_directory,
    stored_parameters,
    write_directory,
)
from nextok.interop.meta_pickle import read_meta_pickle
from nextok.interop.torch_checkpoint import read_torch_checkpoint
from nextok.interop.torch_file import TorchFile
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, char_tokenizer
from nextok.train import resume, run_options

CONFIG = ModelConfig(n_layers=1, d_model=8, n_heads=2, context=6, vocab_size=5, mlp="gelu")
READERS = {
    "load": lambda path: nextok.load(path),
    "model": lambda path: nextok.load(path).model,
    "open_model": open_model,
    "read_directory": read_directory,
    "stored_parameters": stored_parameters,
    "read_config": read_config,
    "read_torch_checkpoint": read_torch_checkpoint,
    "torch_file": lambda path: TorchFile.of(path).load(),
    "read_meta_pickle": read_meta_pickle,
    "read_weights": read_weights,
    "tokenizer": Tokenizer.load,
    "snapshot": lambda path: load_snapshot(RunDirectory(path)),
    "resume": lambda path: resume(run_options({"sources": ["text"], "out": str(path), "steps": 1})),
}


class Planted:
    """Opened by an ordinary unpickler, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "code was run"


@pytest.fixture
def planted(marker):
    """Returns a checkpoint of nanoGPT but for one thing in it."""
    tensors = {"transformer.wte.weight": torch.zeros(5, 8), "transformer.wpe.weight": torch.zeros(6, 8)}
    return {"model": tensors, "model_args": {"n_head": 2}, "config": Planted(marker)}


def model_folder(path):
    model = build(CONFIG, seed=0)
    write_directory(path, CONFIG, weight_arrays(model), char_tokenizer("abcde", end_of_text=False))
    return path


def test_what_is_planted_would_run(marker):
    pickle.loads(pickle.dumps(Planted(marker)))  # noqa: S301 - the one place where it shall
    assert marker.exists()


def poisoned_zip(path, planted):
    torch.save(planted, path)


def poisoned_legacy(path, planted):
    torch.save(planted, path, _use_new_zipfile_serialization=False)


def poisoned_pickle(path, planted):
    path.write_bytes(pickle.dumps(planted["config"]))


def poisoned_old_pickle(path, planted):
    path.write_bytes(pickle.dumps(planted["config"], protocol=0))


def poisoned_tensor_names(path, planted):
    torch.save({"model": {planted["config"]: torch.zeros(1)}, "model_args": {}}, path)


def poisoned_program(path, planted):
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("data.pkl", "constants.pkl"):
            archive.writestr(f"archive/{name}", pickle.dumps(planted["config"]))
        archive.writestr("archive/version", b"3\n")


POISONS = {
    "zip": poisoned_zip,
    "legacy": poisoned_legacy,
    "pickle": poisoned_pickle,
    "old pickle": poisoned_old_pickle,
    "names": poisoned_tensor_names,
    "program": poisoned_program,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.parametrize("name", ["ckpt.pt", "meta.pkl", "model.safetensors", "tokenizer.json", "model.gguf"])
def test_a_poisoned_file_is_refused_by_every_reader(name, poison, reader, planted, marker, tmp_path):
    poison(tmp_path / name, planted)
    with pytest.raises(NextokError):
        reader(tmp_path / name)
    assert not marker.exists()


@pytest.mark.parametrize("reader", ["load", "model", "open_model", "read_directory", "stored_parameters"])
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_folder_with_poisoned_weights_is_refused(name, poison, reader, planted, marker, tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    poison(folder / name, planted)
    with pytest.raises(NextokError):
        READERS[reader](folder)
    assert not marker.exists()


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
def test_poisoned_characters_beside_a_good_checkpoint_are_refused(poison, planted, marker, tmp_path):
    tensors = {
        {"embed.tokens.weight": "wte.weight", "embed.positions.weight": "wpe.weight"}.get(name, name): torch.from_numpy(
            array
        )
        for name, array in weight_arrays(build(CONFIG, seed=0)).items()
    }
    rename = {"blocks.": "h.", "norm1": "ln_1", "norm2": "ln_2", "attn.qkv": "attn.c_attn", "attn.out": "attn.c_proj"}
    rename |= {"mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj", "final_norm": "ln_f"}
    for ours, theirs in rename.items():
        tensors = {name.replace(ours, theirs): tensor for name, tensor in tensors.items()}
    torch.save({"model": tensors, "model_args": {"n_head": 2, "bias": True}}, tmp_path / "ckpt.pt")
    assert read_torch_checkpoint(tmp_path / "ckpt.pt").config == CONFIG
    poison(tmp_path / "meta.pkl", planted)
    for reader in (read_torch_checkpoint, open_model):
        with pytest.raises(NextokError):
            reader(tmp_path / "ckpt.pt")
    assert not marker.exists()


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.parametrize("name", ["run.json", "checkpoints/step-000001/state.json", "checkpoints/LATEST"])
def test_a_run_with_poisoned_records_is_not_resumed(name, poison, planted, marker, tmp_path):
    folder = model_folder(tmp_path / "run")
    (folder / "run.json").write_text("{}", encoding="utf-8")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    poison(folder / name, planted)
    for reader in (READERS["resume"], READERS["snapshot"]):
        with pytest.raises(NextokError):
            reader(folder)
    assert not marker.exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json"])
def test_fields_that_name_code_are_passed_over_or_refused(file, marker, tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    (folder / "__init__.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    harm = {
        "auto_map": {"AutoConfig": "modeling_evil.Config", "AutoModelForCausalLM": "modeling_evil.Model"},
        "trust_remote_code": True,
        "custom_pipelines": {"text-generation": {"impl": "modeling_evil.Pipeline"}},
        "__class__": "modeling_evil.Model",
        "!!python/object/apply:os.system": ["true"],
    }
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | harm), encoding="utf-8")
    if file == "tokenizer.json":  # the library knows every field there may be
        with pytest.raises(NextokError, match="cannot be used as a tokenizer"):
            nextok.load(folder)
    else:
        loaded = nextok.load(folder)
        assert loaded.config == CONFIG
        assert loaded.ids("abc").tolist() == [0, 1, 2]
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"[" * 100_000,
        b'{"model": {"type": "BPE", "vocab": {"a": 1e999}, "merges": []}}',
        b'{"model": {"type": "__import__(\'os\')", "vocab": {}}}',
        b'{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}',
        b'{"model": {"type": "Unigram", "vocab": [["a", NaN]]}}',
        b'{"model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}',
        b'{"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}}, "model": {"type": "BPE", "vocab": {}}}',
        b"\xff\xfe{}",
        b"",
    ],
    ids=range(10),
)
def test_an_odd_tokenizer_is_an_error_in_words(content, tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "tokenizer.json").write_bytes(content)
    for reader in (READERS["load"], Tokenizer.load, open_model):
        with pytest.raises(NextokError):
            reader(folder)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", ["weights.pt", "model.bin", "meta.pkl", "model.gguf"])
def test_weights_and_ggufs_under_another_name_are_refused(name, reader, tmp_path):
    safetensors.numpy.save_file({"w": np.zeros(3, np.float32)}, tmp_path / "whole")
    for start in ((tmp_path / "whole").read_bytes(), b"GGUF\3\0\0\0" + bytes(100)):
        (tmp_path / name).write_bytes(start)
        if reader is read_weights and start[:4] != b"GGUF":
            assert list(reader(tmp_path / name)) == ["w"]  # told by what is in it
            continue
        with pytest.raises(NextokError):
            reader(tmp_path / name)


@pytest.mark.parametrize("start", [b"\x80\x04", b"PK\x03\x04", b"GGUF", b"(lp0\n", b""])
def test_the_kind_of_a_file_is_told_without_opening_it(start, tmp_path):
    path = tmp_path / "some.file"
    path.write_bytes(start + b"\xff" * 64)
    try:
        assert kind_of(path) in ("torch", "gguf")
    except NextokError:
        assert start in (b"(lp0\n", b"")
