"""Snapshots: everything a run needs to go on, saved so that a kill or a full disk never costs the one before.

A snapshot is written aside, checked in with the size and SHA-256 of each file, and renamed; only then do LATEST and
BEST name it. No folder is ever replaced: a step saved a second time gets a folder of its own (`step-000500.1`), and
the first goes when the pointer has moved. So at every moment LATEST names a snapshot that is whole.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nextok.checkpoint.pieces import JoinedArrays
from nextok.checkpoint.rundir import SCHEMA, RunDirectory, read_record
from nextok.checkpoint.weights import Arrays, read_weights, write_weights_to
from nextok.errors import CheckpointError
from nextok.files import disk_errors, folder_atomically, remove_partials, sha256_of, write_json, write_text

_FOLDER = re.compile(r"step-([0-9]{6,})(?:\.([0-9]+))?\Z")
_FILE = re.compile(r"[A-Za-z0-9_-]+\.safetensors\Z")
_OF_SEVERAL = re.compile(r"([A-Za-z0-9_]+)-[0-9]+-of-[0-9]+\Z")  # a file of pieces; see `nextok.checkpoint.pieces`


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The state of a run after a step: tensors as arrays, the rest as plain JSON values, no objects."""

    step: int
    """Optimizer steps done, 0 or more."""
    arrays: Mapping[str, Arrays]
    """Arrays by name, grouped by the stem of the file that holds them: `weights`, `optimizer`."""
    state: Mapping[str, Any]
    """Plain values: schedule, streams, position. Tuples come back as lists, numbers that are not finite as None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """Files that several processes have written for one snapshot, beside it."""

    folder: Path
    """Where they lie, on the file system of the run; named `STEM-00001-of-00004.safetensors`, by `write_pieces`."""
    seals: Mapping[str, Mapping[str, object]]
    """Size and SHA-256 by file name, from `write_pieces`."""


def save_snapshot(
    run: RunDirectory, snapshot: Snapshot, *, keep_last: int, best: bool, staged: Staged | None = None
) -> Path:
    """Returns the folder the snapshot was saved to; LATEST names it afterwards.

    Args:
        run: The run it belongs to.
        snapshot: What to save; the same content saved again at the same step adds nothing.
        keep_last: How many of the latest steps to keep, at least 1. The one BEST names is kept besides.
        best: Whether this is the best model so far; False where no evaluation has said so.
        staged: Files of pieces that become part of it.

    Raises:
        DiskError: if it cannot be written; older snapshots and LATEST are unchanged.
        TypeError: if the state holds a value that is not plain.
    """
    with disk_errors(run.checkpoints):
        run.checkpoints.mkdir(parents=True, exist_ok=True)
    remove_partials(run.checkpoints)
    folder = _write_folder(run.checkpoints, snapshot, staged)
    write_text(run.checkpoints / "LATEST", folder.name + "\n")
    if best:
        write_text(run.checkpoints / "BEST", folder.name + "\n")
    _prune(run.checkpoints, folder, keep_last)
    return folder


def load_snapshot(run: RunDirectory, which: Literal["latest", "best"] | int = "latest") -> tuple[Snapshot, list[str]]:
    """Returns a snapshot, and a warning for each one that had to be passed over to find it.

    If the one asked for is damaged, or a pointer is missing, the nearest whole one before it is taken, or failing that
    the newest one. Arrays are read when they are asked for (`StoredArrays`), so take them one by one.

    Args:
        run: The run.
        which: The one LATEST or BEST names, or the step it was saved at.

    Raises:
        CheckpointError: if no snapshot is whole, or if the step asked for was never saved.
    """
    folder, warnings = find_snapshot(run, which)
    return read_snapshot(folder), warnings


def find_snapshot(run: RunDirectory, which: Literal["latest", "best"] | int = "latest") -> tuple[Path, list[str]]:
    """Returns the folder that `load_snapshot` reads, every file of it checked, and its warnings.

    Raises:
        CheckpointError: if no snapshot is whole, or if the step asked for was never saved.
    """
    folders, warnings = _in_order(run.checkpoints, which)
    for folder in folders:
        flaw = _flaw(folder)
        if not flaw:
            return folder, [*warnings[:-1], *(f"{text} Using {folder.name}." for text in warnings[-1:])]
        warnings.append(f"Checkpoint {folder.name} cannot be used: {flaw}")
    raise CheckpointError(
        " ".join([f"{run.path} has no whole checkpoint to resume from.", *warnings]), "Start the run again."
    )


def read_snapshot(folder: Path) -> Snapshot:
    """Returns the snapshot of a folder that `find_snapshot` has found whole."""
    record = _read_state(folder)
    files: dict[str, list[Path]] = {}
    for name in record["files"]:
        files.setdefault(_stem(name), []).append(folder / name)
    arrays = {stem: _arrays(paths) for stem, paths in files.items()}
    return Snapshot(step=record["step"], arrays=arrays, state=record["state"])


def saved_steps(run: RunDirectory) -> list[int]:
    """Returns the steps at which snapshots lie in the run, ascending; whether they are whole is not looked at."""
    return sorted({_order(folder)[0] for folder in _folders(run.checkpoints)})


def _write_folder(checkpoints: Path, snapshot: Snapshot, staged: Staged | None) -> Path:
    """Returns the folder now holding the snapshot: a new one, or an older one with the same content."""
    earlier = [folder for folder in _folders(checkpoints) if _order(folder)[0] == snapshot.step]
    target = _free_folder(checkpoints, snapshot.step, earlier)
    with folder_atomically(target) as aside:
        files = {f"{stem}.safetensors": arrays for stem, arrays in snapshot.arrays.items()}
        moved = _move_into(aside, staged)
        write_json(
            aside / "state.json",
            {
                "schema": SCHEMA,
                "step": snapshot.step,
                "files": {name: _write_file(aside / name, arrays) for name, arrays in files.items()} | moved,
                "state": dict(snapshot.state),
            },
        )
    twin = next((folder for folder in earlier if _same_content(folder, target)), None)
    if twin is None:
        return target
    _discard(target)
    return twin


def _free_folder(checkpoints: Path, step: int, earlier: list[Path]) -> Path:
    if not earlier:
        return checkpoints / f"step-{step:06d}"
    return checkpoints / f"step-{step:06d}.{max(_order(folder)[1] for folder in earlier) + 1}"


def _write_file(path: Path, arrays: Arrays) -> dict[str, object]:
    assert _FILE.match(path.name), f"{path.name} is not a plain file name"
    with path.open("wb") as stream:
        write_weights_to(stream, arrays)
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _move_into(folder: Path, staged: Staged | None) -> dict[str, object]:
    if staged is None:
        return {}
    for name in sorted(staged.seals):
        assert _FILE.match(name), f"{name} is not a plain file name"
        os.replace(staged.folder / name, folder / name)
    return {name: dict(staged.seals[name]) for name in sorted(staged.seals)}


def _same_content(folder: Path, target: Path) -> bool:
    """Says whether a whole folder holds what `target` holds: state.json carries the hashes of all other files."""
    return not _flaw(folder) and (folder / "state.json").read_bytes() == (target / "state.json").read_bytes()


def _prune(checkpoints: Path, newest: Path, keep_last: int) -> None:
    """Removes all but the newest of each of the `keep_last` last steps, and the one BEST names."""
    ranked = _ranked(_folders(checkpoints), newest)
    last_of_step: dict[int, str] = {}
    for folder in ranked:
        last_of_step.setdefault(_order(folder)[0], folder.name)
    kept = {newest.name, _pointer(checkpoints, "best"), *list(last_of_step.values())[:keep_last]}
    for folder in ranked:
        if folder.name not in kept:
            _discard(folder)


def _discard(folder: Path) -> None:
    """Removes a folder; renamed first, so that a kill in between leaves no half of it under its name."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):  # what cannot be removed costs room, not the run
        os.replace(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _in_order(checkpoints: Path, which: Literal["latest", "best"] | int) -> tuple[list[Path], list[str]]:
    """Returns the folders to try, the wanted one first, and what is to be said about the want itself."""
    folders = _folders(checkpoints)
    if isinstance(which, int):
        named = [folder for folder in folders if _order(folder)[0] == which]
        if folders and not named:
            steps = ", ".join(str(step) for step in sorted({_order(folder)[0] for folder in folders}))
            raise CheckpointError(f"{checkpoints} has no checkpoint of step {which}.", f"Saved steps: {steps}.")
        return (_ranked(folders, max(named, key=_order)) if named else []), []
    name = _pointer(checkpoints, which)
    if name:
        rest = [folder for folder in _ranked(folders, checkpoints / name) if folder.name != name]
        return [checkpoints / name, *rest], []
    if which == "best":
        return _in_order(checkpoints, "latest")[0], ["No evaluation has named a best checkpoint yet."]
    newest_first = sorted(folders, key=_order, reverse=True)
    return newest_first, ["No checkpoint is marked as the latest."] if folders else []


def _ranked(folders: list[Path], first: Path) -> list[Path]:
    """Returns the folders from `first` backwards; later ones, left by a run that was set back, come last."""
    start = _order(first)
    return sorted(folders, key=lambda folder: (_order(folder) <= start, _order(folder)), reverse=True)


def _folders(checkpoints: Path) -> list[Path]:
    if not checkpoints.is_dir():
        return []
    return [folder for folder in checkpoints.iterdir() if _FOLDER.match(folder.name)]


def _order(folder: Path) -> tuple[int, int]:
    """Returns the step and, where a step was saved again, which time this was (0 the first)."""
    match = _FOLDER.match(folder.name)
    assert match is not None, f"{folder} is not a checkpoint folder"
    return int(match[1]), int(match[2] or 0)


def _pointer(checkpoints: Path, which: Literal["latest", "best"]) -> str:
    """Returns the folder name that LATEST or BEST holds; empty if there is none or it is not such a name."""
    try:
        name = (checkpoints / which.upper()).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return name if _FOLDER.match(name) else ""


def _flaw(folder: Path) -> str:
    """Returns what is wrong with a checkpoint, empty if it is whole: every file has its size and its SHA-256."""
    if not folder.is_dir():
        return "the folder is missing."
    try:
        for name, seal in _read_state(folder)["files"].items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else 0
            if size != seal.get("bytes"):
                return f"{name} has {size} of {seal.get('bytes')} bytes."
            if sha256_of(path) != seal.get("sha256"):
                return f"{name} has changed since it was saved."
    except CheckpointError as error:
        return error.message
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})."
    return ""


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / "state.json"
    record = read_record(path)
    if not _is_state(record):
        raise CheckpointError(f"{path} is not the record of a checkpoint.")
    return record


def _is_state(record: dict[str, Any]) -> bool:
    files = record.get("files")
    return (
        isinstance(record.get("step"), int)
        and isinstance(record.get("state"), dict)
        and isinstance(files, dict)
        and all(_FILE.match(name) and isinstance(seal, dict) for name, seal in files.items())
    )


def _stem(name: str) -> str:
    stem = Path(name).stem
    several = _OF_SEVERAL.match(stem)
    return several[1] if several else stem


def _arrays(paths: list[Path]) -> Arrays:
    return JoinedArrays(paths) if _OF_SEVERAL.match(paths[0].stem) else read_weights(paths[0])
