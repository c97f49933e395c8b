"""From what the user names (files, folders, globs, named corpora) to the list of files to read, in a fixed order.

The order is by name, compared code point by code point, so it is the same under every locale and file system.
"""

import difflib
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nextok.corpus.named import NAMED, named_files
from nextok.corpus.store import MANIFEST_NAME
from nextok.errors import CorpusError

Format = Literal["text", "jsonl", "csv", "tsv", "parquet"]
Compression = Literal["none", "gz", "bz2", "xz", "zst"]

_FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
_BINARY_SUFFIXES = frozenset(
    """
    .7z .a .arrow .avi .bin .bmp .class .ckpt .db .dll .doc .docx .dylib .epub .exe .feather .flac .gguf .gif .h5 .ico
    .jar .jpeg .jpg .lz4 .mkv .mo .mov .mp3 .mp4 .npy .npz .o .odt .ogg .onnx .otf .pdf .pickle .pkl .png .ppt .pptx
    .pt .pth .pyc .pyd .pyo .rar .safetensors .so .sqlite .tar .tbz .tbz2 .tgz .tif .tiff .ttf .txz .wasm .wav .webm
    .webp .whl .woff .woff2 .xls .xlsx .z .zip
    """.split()  # noqa: SIM905 - seventy quoted names would hide the list
)

_OWN_OUTPUT = {  # what earlier commands left in the folder, told by the files that each has
    "prepared corpus": {MANIFEST_NAME, "train-00000.npy"},
    "run directory": {"run.json"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file to read."""

    path: Path
    """Where it is."""
    format: Format
    """How documents lie in it: `text` is one document a file."""
    compression: Compression
    """What it is packed with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceList:
    """The files to read, in order, and what was left out of folders and globs."""

    files: tuple[SourceFile, ...]
    """Each file once, in the order of the sources, by name within one."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of files left out by reason: hidden, binary, not a file, duplicate, prepared corpus, run directory."""

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of all files."""
        return sum(file.path.stat().st_size for file in self.files)


def find_files(sources: Sequence[str], cache: Path) -> SourceList:
    """Returns the files that the sources name.

    A source is a file, a folder (read recursively; hidden files, binary suffixes, prepared corpora and runs are skipped
    and counted), a glob, or a named corpus. A file or folder of that name goes before a named corpus. A file that two
    sources name is read once: twice would put the same text into training and validation.

    Args:
        sources: What the user typed.
        cache: Folder for downloads of named corpora.

    Raises:
        CorpusError: if a source matches nothing (with near names), or names a file that is not text.
        DownloadError: if a named corpus cannot be fetched.
    """
    if not sources:
        raise CorpusError("No text was named.", f"Name a file, a folder, a glob, or one of {', '.join(sorted(NAMED))}.")
    skipped: dict[str, int] = {}
    found: dict[Path, SourceFile] = {}
    for source in sources:
        try:
            paths = _match(source, cache, skipped)
        except OSError as error:  # a name that is too long, a folder above it that may not be entered
            raise CorpusError(f"Cannot look for {source[:200]!r}: {error.strerror}.", "Check the name.") from error
        if not paths:
            raise CorpusError(f"Nothing to read in {source!r}{_spell(skipped)}.", "Name text files, or another folder.")
        for path in paths:
            resolved = path.resolve()
            if resolved in found:
                _count(skipped, "duplicate")
            found.setdefault(resolved, describe_file(path))
    return SourceList(files=tuple(found.values()), skipped=skipped)


def describe_file(path: Path) -> SourceFile:
    """Returns the file with its format and compression, told by its suffixes; unknown suffixes are text."""
    name = path.name.lower()
    stem, suffix = os.path.splitext(name)
    compression = _COMPRESSIONS.get(suffix, "none")
    inner = suffix if compression == "none" else os.path.splitext(stem)[1]
    return SourceFile(path=path, format=_FORMATS.get(inner, "text"), compression=compression)


def _match(source: str, cache: Path, skipped: dict[str, int]) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return _walk(path, skipped)
    if path.exists():
        return [_refuse_binary(path)]
    if source in NAMED:
        return named_files(source, cache)
    if glob.has_magic(source):
        return _glob(source, skipped)
    near = _near_names(path)
    hint = f"Did you mean {near[0]!r}?" if near else f"Named corpora: {', '.join(sorted(NAMED))}."
    raise CorpusError(f"There is no file, folder or named corpus {source!r}.", hint)


def _walk(folder: Path, skipped: dict[str, int]) -> list[Path]:
    kept = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder):
        own = next((kind for kind, marks in _OWN_OUTPUT.items() if marks <= set(names)), None)
        if own:
            _count(skipped, own, sum(len(inside) for _, _, inside in os.walk(parent)))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        kept += [Path(parent, name) for name in names if _wanted(Path(parent, name), skipped)]
    return sorted(kept, key=lambda path: path.relative_to(folder).as_posix())


def _glob(pattern: str, skipped: dict[str, int]) -> list[Path]:
    paths = [Path(name) for name in glob.glob(pattern, recursive=True)]
    kept = [path for path in paths if not path.is_dir() and _wanted(path, skipped)]
    return sorted(kept, key=lambda path: path.as_posix())


def _wanted(path: Path, skipped: dict[str, int]) -> bool:
    if path.name.startswith("."):
        reason = "hidden"
    elif _is_binary(path):
        reason = "binary"
    elif not path.is_file():  # broken links, sockets, pipes
        reason = "not a file"
    else:
        return True
    _count(skipped, reason)
    return False


def _refuse_binary(path: Path) -> Path:
    if _is_binary(path):
        raise CorpusError(f"{path} is not a text file ({path.suffix}).", "Convert it to text, JSON lines or Parquet.")
    return path


def _is_binary(path: Path) -> bool:
    stem, suffix = os.path.splitext(path.name.lower())
    return suffix in _BINARY_SUFFIXES or (suffix in _COMPRESSIONS and os.path.splitext(stem)[1] in _BINARY_SUFFIXES)


def _refuse_folder(error: OSError) -> None:
    raise CorpusError(f"Cannot read the folder {error.filename}: {error.strerror}.") from error


def _near_names(path: Path) -> list[str]:
    siblings = {entry.name: str(entry) for entry in path.parent.iterdir()} if path.parent.is_dir() else {}
    known = siblings | {name: name for name in NAMED}
    return [known[name] for name in difflib.get_close_matches(path.name, known, n=1)]


def _count(skipped: dict[str, int], reason: str, number: int = 1) -> None:
    skipped[reason] = skipped.get(reason, 0) + number


def _spell(skipped: dict[str, int]) -> str:
    counts = ", ".join(f"{number} {reason}" for reason, number in sorted(skipped.items()))
    return f" (left out: {counts})" if counts else ""
