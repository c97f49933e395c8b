"""Packed forms beside a model: used while they belong to its weights, and never after."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nextok
from nextok.checkpoint import read_weight_shapes
from nextok.engine import PackedModel
from nextok.errors import DiskError
from nextok.interop import write_directory
from nextok.packing import packed_path, save_packed
from nextok.spec import ModelConfig

CONFIG = ModelConfig(n_layers=1, d_model=32, n_heads=2, context=8, vocab_size=40)


def packed_model(folder: Path, precision: str) -> PackedModel:
    return nextok.load(folder, precision=precision).packed()


@pytest.fixture
def folder(tmp_path: Path, random_weights) -> Path:
    write_directory(tmp_path / "my model é", CONFIG, random_weights(CONFIG))
    return tmp_path / "my model é"


def test_a_saved_form_is_mapped_and_the_same(folder: Path) -> None:
    packed = packed_model(folder, "int4")
    assert packed.arena.flags.owndata or packed.arena.base is not None
    path = save_packed(folder, packed)
    assert path == packed_path(folder, "int4") == folder / "packed" / "int4.safetensors"
    again = packed_model(folder, "int4")
    np.testing.assert_array_equal(again.arena, packed.arena)
    np.testing.assert_array_equal(again.vectors, packed.vectors)
    assert (again.config, again.precision) == (CONFIG, "int4")
    again.arena[:] = 0  # its own memory, not the file
    np.testing.assert_array_equal(packed_model(folder, "int4").arena, packed.arena)


def test_other_weights_are_packed_anew(folder: Path, random_weights) -> None:
    old = packed_model(folder, "int8")
    save_packed(folder, old)
    write_directory(folder, CONFIG, random_weights(CONFIG, seed=1))
    os.utime(folder / "model.safetensors", ns=(1, 1))  # even on a clock that stands still
    new = packed_model(folder, "int8")
    assert not np.array_equal(new.arena, old.arena)


def test_each_precision_has_a_file_of_its_own_beside_a_file_too() -> None:
    assert packed_path(Path("a/model.gguf"), "bf16") == Path("a/model.gguf.bf16.safetensors")
    assert len({packed_path(Path("x"), precision) for precision in ("bf16", "int8", "int4")}) == 3


def test_a_folder_that_takes_no_file_is_said(folder: Path) -> None:
    packed = packed_model(folder, "bf16")
    (folder / "packed").touch()
    with pytest.raises(DiskError):
        save_packed(folder, packed)


def test_the_same_weights_under_another_config_are_packed_anew(folder: Path, random_weights) -> None:
    save_packed(folder, packed_model(folder, "int8"))
    stamp = (folder / "model.safetensors").stat()
    other = replace(CONFIG, mlp="relu")
    write_directory(folder, other, random_weights(CONFIG))
    os.utime(folder / "model.safetensors", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert packed_model(folder, "int8").config == other


def test_shards_of_any_name_are_told_apart(folder: Path, random_weights) -> None:
    def shard(seed: int) -> None:
        write_directory(folder, CONFIG, random_weights(CONFIG, seed=seed))
        (folder / "model.safetensors").rename(folder / "part.safetensors")
        index = {"weight_map": dict.fromkeys(read_weight_shapes(folder / "part.safetensors"), "part.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    shard(0)
    old = packed_model(folder, "int8")
    save_packed(folder, old)
    shard(1)
    os.utime(folder / "part.safetensors", ns=(1, 1))
    assert not np.array_equal(packed_model(folder, "int8").arena, old.arena)
