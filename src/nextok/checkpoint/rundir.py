"""The run directory: which file lies where, and when a folder is one.

A folder is a run when it holds `run.json`. Paths are only named here; each file is written by the room that owns it.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextok.errors import CheckpointError, InputError
from nextok.files import disk_errors, read_json, write_json

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One training run on disk, `runs/NAME/`, which is also the model it made."""

    path: Path
    """The folder itself."""

    @property
    def config(self) -> Path:
        """Returns the path of the model's config, as transformers reads it."""
        return self.path / "config.json"

    @property
    def generation_config(self) -> Path:
        """Returns the path of the default sampling options, as transformers reads them."""
        return self.path / "generation_config.json"

    @property
    def tokenizer(self) -> Path:
        """Returns the path of the tokenizer."""
        return self.path / "tokenizer.json"

    @property
    def tokenizer_config(self) -> Path:
        """Returns the path of the file that tells transformers which tokenizer class to use."""
        return self.path / "tokenizer_config.json"

    @property
    def weights(self) -> Path:
        """Returns the path of the best model so far."""
        return self.path / "model.safetensors"

    @property
    def record(self) -> Path:
        """Returns the path of `run.json`: options, command, version, seed, machine, fingerprints."""
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        """Returns the path of the metrics, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def findings(self) -> Path:
        """Returns the path of what was found wrong with the run on the way, one JSON object a line."""
        return self.path / "findings.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Returns the folder of snapshots to resume from."""
        return self.path / "checkpoints"

    @property
    def plots(self) -> Path:
        """Returns the folder of plots."""
        return self.path / "plots"

    @property
    def samples(self) -> Path:
        """Returns the path of the texts sampled during training."""
        return self.path / "samples.txt"

    @property
    def corpus(self) -> Path:
        """Returns the folder of token shards, where the run prepared its own."""
        return self.path / "corpus"

    @classmethod
    def create(cls, path: Path) -> "RunDirectory":
        """Returns the run directory of a new run, with its folder made; an empty folder is taken as it is.

        Raises:
            CheckpointError: if the path holds a run or any other file.
            DiskError: if the folder cannot be made.
        """
        if _is_run(path):
            hint = "Continue that run with --resume, or name another folder with --out."
            raise CheckpointError(f"{path} already holds a run.", hint)
        if path.exists() and not path.is_dir():
            raise CheckpointError(f"{path} is a file, not a folder.", "Name another folder with --out.")
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            foreign = next((item.name for item in sorted(path.iterdir()) if not _is_leftover(item)), None)
        if foreign is not None:
            raise CheckpointError(
                f"{path} already holds other files, {foreign!r} among them.", "Name an empty or new folder with --out."
            )
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Returns the run directory of a run that exists.

        Raises:
            CheckpointError: if the folder is missing or holds no run; the hint names runs nearby.
        """
        if _is_run(path):
            return cls(path)
        if not path.exists():
            raise CheckpointError(f"There is no run at {path}: the folder does not exist.", _runs_nearby(path))
        if not path.is_dir():
            raise CheckpointError(f"{path} is a file, not a run directory.", _runs_nearby(path))
        raise CheckpointError(f"{path} holds no run: run.json is missing.", _runs_inside(path) or _runs_nearby(path))

    def read_run(self) -> dict[str, Any]:
        """Returns what `write_run` recorded.

        Raises:
            CheckpointError: if `run.json` is missing, damaged, or of a newer schema.
        """
        return read_record(self.record)

    def write_run(self, record: dict[str, Any]) -> None:
        """Writes `run.json` atomically, with the schema beside the record.

        Raises:
            DiskError: if the file cannot be written.
        """
        write_json(self.record, {"schema": SCHEMA, **record})


def read_record(path: Path) -> dict[str, Any]:
    """Returns the values of a JSON record of this room, without its schema.

    Raises:
        CheckpointError: if the file is missing, damaged, or of a newer schema.
    """
    try:
        record = read_json(path)
    except InputError as error:
        raise CheckpointError(error.message) from error
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    if not isinstance(schema, int):
        raise CheckpointError(f"{path} was not written by nextok: it has no schema number.")
    if schema > SCHEMA:
        raise CheckpointError(
            f"{path} has schema {schema}; this nextok reads schema {SCHEMA}.", "Install a newer nextok."
        )
    return record


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _is_leftover(item: Path) -> bool:
    """Says whether a killed process left the item half-written (the names that `nextok.files` uses)."""
    return item.name.startswith(".") and item.name.endswith(".partial")


def _runs_nearby(path: Path) -> str:
    names = _run_names(path.absolute().parent)
    near = difflib.get_close_matches(path.name, names, n=3)
    if near:
        return f"Did you mean {' or '.join(str(path.with_name(name)) for name in near)}?"
    return f"Runs in {path.parent}: {_listed(names)}." if names else "Train one with nextok train."


def _runs_inside(path: Path) -> str:
    names = _run_names(path)
    return f"Name one of the runs in it: {_listed(names)}." if names else ""


def _run_names(folder: Path) -> list[str]:
    try:
        return sorted(item.name for item in folder.iterdir() if _is_run(item))
    except OSError:
        return []


def _listed(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
