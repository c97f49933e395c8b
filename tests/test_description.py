"""A model in numbers, from Python."""

from dataclasses import asdict
from pathlib import Path

import pytest

import nextok
from nextok.errors import CheckpointError, ConfigError
from nextok.interop import write_directory
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig, count, preset_config

CONFIG = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=12, vocab_size=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "nano"
    folder.mkdir()
    write_directory(folder, CONFIG, weight_arrays(build(CONFIG, 1)))
    return folder


def test_preset_is_counted_without_files() -> None:
    found = nextok.describe("gpt2", vocab_size=1000)
    assert found.config == preset_config("gpt2", vocab_size=1000)
    assert found.counts == count(found.config)
    assert found.parameters_in_file is found.run is None
    assert not {"parameters_in_file", "run"} & set(found.to_mapping())


def test_folder_is_counted_in_its_files(folder: Path) -> None:
    found = nextok.describe(folder)
    assert (found.config, found.run) == (CONFIG, None)
    assert found.parameters_in_file == found.counts.parameters
    values = found.to_mapping()
    assert values["config"] == asdict(CONFIG)
    assert values["training_memory_bytes_one_sequence"] == found.counts.training_memory_bytes(12)


def test_folder_comes_before_the_preset_of_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert nextok.describe("nano").config == CONFIG


def test_what_cannot_be_described_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="chosen for a preset"):
        nextok.describe(folder, recipe="modern")
    with pytest.raises(CheckpointError, match="gpt5"):
        nextok.describe("gpt5")
