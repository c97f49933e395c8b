"""Files that are whole or absent: atomic writes, strict JSON, and lines that survive a kill.

Every text file is UTF-8 whatever the locale says. JSON is strict in both directions: NaN and Infinity are written as
null and refused on reading, because other readers choke on them.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nextok.errors import DiskError, InputError


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns an OSError while writing to `path` into a `DiskError` that says whether the disk is full."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "the disk is full" if full else (error.strerror or str(error))
        hint = "Free some space and run the command again." if full else "Choose a folder you can write to."
        raise DiskError(f"Cannot write {path}: {reason}. Files already there are unchanged.", hint) from error


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Calls `write` with a temporary file beside `path`, syncs it, and renames it into place.

    A reader sees the old file or the new one, never a part; on any error the old one stays.

    Raises:
        DiskError: if the file cannot be written.
    """
    aside = _aside(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("wb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(aside, path)
            sync_folder(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes the text atomically as UTF-8; what UTF-8 cannot hold (lone surrogates) becomes `?`."""
    write_atomically(path, lambda stream: stream.write(text.encode("utf-8", errors="replace")))


def write_json(path: Path, value: object) -> None:
    """Writes the value atomically as strict, indented JSON."""
    write_text(path, to_json(value, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Returns the value of a strict JSON file.

    Raises:
        InputError: if the file is missing, not UTF-8, or not strict JSON.
    """
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}.") from error


def to_json(value: object, *, indent: int | None = None) -> str:
    """Returns strict JSON; numbers that are not finite become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False, ensure_ascii=False, default=_plain)


def from_json(text: str | bytes) -> Any:
    """Returns the value of strict JSON.

    Raises:
        ValueError: if the text is not strict JSON; NaN, Infinity, numbers beyond a double (1e400) and absurd nesting
            are refused too.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def append_json_line(stream: BinaryIO, record: dict[str, object]) -> None:
    """Writes one record as one line and hands it to the system, so that a kill loses at most the line in flight."""
    stream.write(to_json(record).encode("utf-8", errors="replace") + b"\n")
    stream.flush()


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a JSON-lines file; a last line cut short by a kill is left out.

    Raises:
        InputError: if the file cannot be read, or any other line is not a JSON object.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = from_json(line)
        except ValueError as error:
            if number == len(lines):
                break
            raise InputError(f"{path}, line {number}, is not valid JSON: {error}.") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}, is not a JSON object.")
        records.append(record)
    return records


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of the file in hexadecimal, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def folder_atomically(path: Path) -> Iterator[Path]:
    """Yields a folder beside `path` to fill; on success its files are synced and it is renamed to `path`.

    An older folder of that name is replaced only after the new one is complete. On any error nothing changes; after a
    kill between the two renames `remove_partials` puts the older folder back.

    Raises:
        DiskError: if something cannot be written.
    """
    aside = _aside(path)
    with disk_errors(path):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
            for inside in aside.rglob("*"):
                if inside.is_dir():
                    sync_folder(inside)
                else:
                    _sync_file(inside)
            sync_folder(aside)
            _swap_folder(aside, path)
            sync_folder(path.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def remove_partials(folder: Path) -> None:
    """Removes what a killed process left half-written in the folder; a folder it was just replacing comes back."""
    for old in folder.glob(".*.old.partial"):
        path = folder / re.sub(r"\.[^.]*\.old\.partial\Z", "", old.name[1:])
        if not path.exists():
            os.replace(old, path)
    for left in folder.glob(".*.partial"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes renames inside the folder survive a power cut, where the system can."""
    with contextlib.suppress(OSError):  # some file systems and Windows cannot sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _aside(path: Path, kind: str = "") -> Path:
    """Returns the name beside `path` for what is not whole yet: one for each process and thread."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}{kind}.partial")


def _sync_file(path: Path) -> None:
    with path.open("rb+") as stream:  # Windows syncs only what is open for writing
        os.fsync(stream.fileno())


def _swap_folder(new: Path, path: Path) -> None:
    old = _aside(path, ".old")
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(new, path)
    except BaseException:
        if old.exists():
            os.replace(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    item = getattr(value, "item", None)  # NumPy scalars
    if callable(item):
        return _finite(item())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of numbers")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
