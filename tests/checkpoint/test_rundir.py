"""The run directory: what a new run may be put into, what counts as a run, and what run.json keeps."""

import json
from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory
from nextok.errors import CheckpointError, DiskError


def make_run(path: Path) -> RunDirectory:
    run = RunDirectory.create(path)
    run.write_run({"seed": 1})
    return run


def test_every_path_lies_inside_under_its_documented_name() -> None:
    run = RunDirectory(Path("runs/a"))
    names = {
        "config": "config.json",
        "generation_config": "generation_config.json",
        "tokenizer": "tokenizer.json",
        "tokenizer_config": "tokenizer_config.json",
        "weights": "model.safetensors",
        "record": "run.json",
        "metrics": "metrics.jsonl",
        "checkpoints": "checkpoints",
        "plots": "plots",
        "samples": "samples.txt",
        "corpus": "corpus",
    }
    assert {attribute: getattr(run, attribute) for attribute in names} == {
        attribute: Path("runs/a") / name for attribute, name in names.items()
    }


def test_a_new_run_may_go_into_a_new_or_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new", "deep/er"):
        assert RunDirectory.create(tmp_path / name).path.is_dir()


def test_leftovers_of_a_killed_start_do_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".run.json.123.partial").touch()
    RunDirectory.create(tmp_path)


def test_a_new_run_never_goes_over_an_old_one(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    with pytest.raises(CheckpointError, match="already holds a run") as caught:
        RunDirectory.create(tmp_path / "a")
    assert "--resume" in caught.value.hint
    assert "--out" in caught.value.hint


def test_a_new_run_never_goes_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(CheckpointError, match=r"'thesis\.tex'") as caught:
        RunDirectory.create(tmp_path)
    assert "--out" in caught.value.hint


def test_a_file_is_no_place_for_a_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CheckpointError, match="is a file"):
        RunDirectory.create(file)
    with pytest.raises(CheckpointError, match="is a file"):
        RunDirectory.open(file)
    with pytest.raises(DiskError):
        RunDirectory.create(file / "below")


def test_opening_finds_the_run_that_was_created(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    assert RunDirectory.open(tmp_path / "a").read_run() == {"seed": 1}


def test_a_misspelt_run_is_answered_with_the_runs_of_a_near_name(tmp_path: Path) -> None:
    for name in ("shakespeare-1", "stories"):
        make_run(tmp_path / name)
    (tmp_path / "shakespear-no-run").mkdir()
    with pytest.raises(CheckpointError, match="does not exist") as caught:
        RunDirectory.open(tmp_path / "shakespear-1")
    assert "shakespeare-1?" in caught.value.hint
    assert "no-run" not in caught.value.hint


def test_a_name_like_no_other_is_answered_with_the_runs_there_are(tmp_path: Path) -> None:
    make_run(tmp_path / "stories")
    with pytest.raises(CheckpointError) as caught:
        RunDirectory.open(tmp_path / "qqq")
    assert "stories" in caught.value.hint


def test_a_folder_of_runs_is_not_a_run_and_its_runs_are_named(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "stories")
    with pytest.raises(CheckpointError, match=r"run\.json is missing") as caught:
        RunDirectory.open(tmp_path / "runs")
    assert "stories" in caught.value.hint


def test_a_place_without_any_run_still_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        RunDirectory.open(tmp_path / "no" / "where")
    assert "nextok train" in caught.value.hint


def test_the_record_comes_back_as_written_and_names_its_schema_in_the_file(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    record = {"seed": 2**64 - 1, "command": ["nextok", "train", "Ünï.txt"], "options": {"lr": 0.1 + 0.2, "limit": None}}
    run.write_run(record)
    assert run.read_run() == record
    assert json.loads(run.record.read_text(encoding="utf-8"))["schema"] == 1


def test_a_record_of_a_newer_schema_is_refused_by_its_number(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.record.write_text('{"schema": 7}', encoding="utf-8")
    with pytest.raises(CheckpointError, match="schema 7"):
        run.read_run()


@pytest.mark.parametrize(
    "text", ["", '{"schema": 1', "[]", "{}", '{"schema": "1"}', '{"schema": 1, "loss": NaN}', "\xff"]
)
def test_a_damaged_record_is_a_plain_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    run.record.write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"run\.json"):
        run.read_run()
