"""What is measured: presets with random weights, models on the disk, and what does not fit."""

from pathlib import Path

import numpy as np
import pytest

from nextok.benchmark import find_subject
from nextok.benchmark.subject import random_weights
from nextok.errors import CheckpointError, ConfigError
from nextok.interop import write_directory
from nextok.spec import ModelConfig, parameter_shapes, preset_config


def test_random_weights_are_those_of_the_model_and_the_same_each_time(any_config: ModelConfig) -> None:
    first, second = dict(random_weights(any_config)), dict(random_weights(any_config))
    assert {name: array.shape for name, array in first.items()} == parameter_shapes(any_config)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert np.isfinite(array).all()


def test_a_preset_has_random_weights() -> None:
    subject = find_subject("nano")
    assert (subject.name, subject.random, subject.config) == ("nano", True, preset_config("nano"))
    assert subject.pack("int8").config == subject.config


def test_a_folder_is_measured_with_its_own_weights(tmp_path: Path) -> None:
    config = ModelConfig(n_layers=1, d_model=8, n_heads=2, context=8, vocab_size=11)
    weights = dict(random_weights(config))
    write_directory(tmp_path / "model", config, weights)
    subject = find_subject(str(tmp_path / "model"))
    assert not subject.random
    for _ in range(2):  # it is packed once for each precision
        np.testing.assert_array_equal(
            subject.pack("fp32").weights()["embed.tokens.weight"], weights["embed.tokens.weight"]
        )


def test_what_exists_comes_before_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nano").mkdir()
    with pytest.raises(CheckpointError, match="nano"):
        find_subject("nano")


def test_a_model_that_does_not_fit_is_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextok.machine.available_memory_bytes", lambda: 2 << 20)
    subject = find_subject("nano")
    with pytest.raises(ConfigError, match=r"nano takes 3\.2 MiB in fp32, and 2\.0 MiB of memory are free"):
        subject.pack("fp32")
    subject.check_memory("int8")
    monkeypatch.setattr("nextok.machine.available_memory_bytes", lambda: None)
    subject.check_memory("fp32")
