"""What a run tells while it goes: metrics as JSON lines and sampled texts, both appended and always UTF-8.

A kill costs at most the line in flight; the next append first removes what is left of it, so lines never run together.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from nextok.errors import CheckpointError, InputError
from nextok.files import append_json_line, disk_errors, from_json, read_json_lines, to_json, write_text


@dataclass(frozen=True, slots=True)
class MetricsLog:
    """The metrics of one run, one strict JSON object a line; the file is open only while a line is written."""

    path: Path
    """The file; it need not exist yet."""

    def append(self, record: Mapping[str, object]) -> None:
        """Adds one record; numbers that are not finite become null.

        Raises:
            DiskError: if the line cannot be written.
        """
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as stream:
                _end_last_line(stream)
                append_json_line(stream, dict(record))

    def keep_through(self, step: int) -> None:
        """Drops the records after `step`, atomically: a run that resumes there writes them anew.

        Raises:
            CheckpointError: if the file is damaged.
            DiskError: if it cannot be written.
        """
        records = read_metrics(self.path)
        kept = [record for record in records if not _is_after(record, step)]
        if len(kept) < len(records):
            write_text(self.path, "".join(to_json(record) + "\n" for record in kept))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a metrics file in order, none if it does not exist; a cut last line is left out.

    Raises:
        CheckpointError: if another line is not a JSON object.
    """
    if not path.exists():
        return []
    try:
        records = read_json_lines(path)
    except InputError as error:
        raise CheckpointError(error.message) from error
    wrong = next((record for record in records if not isinstance(record, dict)), None)
    if wrong is not None:
        raise CheckpointError(f"{path} is not a metrics file: it holds {wrong!r} where an object is due.")
    return records


def append_samples(path: Path, step: int, text: str) -> None:
    """Adds a text sampled at `step` under a heading of its own; what UTF-8 cannot hold becomes `?`.

    Raises:
        DiskError: if it cannot be written.
    """
    block = f"=== step {step} ===\n{text}\n\n"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.write(block.encode("utf-8", errors="replace"))


def keep_samples_through(path: Path, step: int) -> None:
    """Drops the samples taken after `step`, so that a resumed run does not write them twice.

    Raises:
        DiskError: if the file cannot be written.
    """
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    later = next((at for at in re.finditer(r"^=== step ([0-9]+) ===$", text, re.MULTILINE) if int(at[1]) > step), None)
    if later is not None:
        write_text(path, text[: later.start()])


def _is_after(record: Mapping[str, Any], step: int) -> bool:
    at = record.get("step")
    return isinstance(at, int | float) and at > step


def _end_last_line(stream: BinaryIO) -> None:
    """Ends a last line without a newline: completes a whole record, removes a cut one."""
    size = stream.seek(0, os.SEEK_END)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) == b"\n":
        return
    begin = _last_line_begin(stream, size)
    stream.seek(begin)
    if _is_json(stream.read()):
        stream.write(b"\n")
    else:
        stream.truncate(begin)


def _last_line_begin(stream: BinaryIO, size: int, piece_bytes: int = 65536) -> int:
    """Returns where the last line starts, read from the end in pieces: the file may be long."""
    end = size
    while end > 0:
        begin = max(0, end - piece_bytes)
        stream.seek(begin)
        newline = stream.read(end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True
