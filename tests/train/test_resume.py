"""Resuming is tested with the runs it goes on with, in test_run.py; here, what it refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.errors import CheckpointError, ConfigError
from nextok.train import RunOptions, resume, run, saved_options


def test_no_run_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no run at"):
        saved_options(tmp_path / "absent")


def test_length_of_the_first_sitting_is_left_open(make_options: Callable[..., RunOptions]) -> None:
    options = make_options(steps=3)
    run(options, cache=options.out)
    saved = saved_options(options.out)
    assert (saved.steps, saved.tokens, saved.minutes, saved.train.pause_after_steps) == (None, None, None, 0)
    assert saved.out == options.out


def test_unknown_change_is_refused(make_options: Callable[..., RunOptions]) -> None:
    options = make_options(steps=1)
    run(options, cache=options.out)
    with pytest.raises(ConfigError, match="Unknown option 'lrr'"):
        saved_options(options.out, {"train": {"lrr": 1.0}})


def test_damaged_checkpoints_are_not_taken_for_none(make_options: Callable[..., RunOptions]) -> None:
    options = make_options(steps=1)
    run(options, cache=options.out)
    for file in (options.out / "checkpoints").rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        resume(saved_options(options.out))
