"""Corpora that have a name: Python's own standard library, and tiny shakespeare.

Only the second needs the network, once; a file the user names always works in its place.
"""

import hashlib
import http.client
import os
import sysconfig
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from nextok.errors import CorpusError, DownloadError
from nextok.files import sha256_of, write_atomically

NAMED: dict[str, str] = {
    "python-stdlib": "the source of the Python that runs, about 12 MB, no download",
    "tinyshakespeare": "1.1 MB of Shakespeare's plays, downloaded once",
}
"""Names that `find_files` knows, each with what it is."""

DOWNLOAD_LIMIT_BYTES = 64 << 20
_TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """A file that the network has, known by its content."""

    name: str
    """What the user types."""
    url: str
    """Where it is."""
    sha256: str
    """SHA-256 of its bytes in hexadecimal."""
    filename: str
    """Its name in the cache folder."""


TINY_SHAKESPEARE = Download(
    name="tinyshakespeare",
    url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    filename="tinyshakespeare.txt",
)


def named_files(name: str, cache: Path) -> list[Path]:
    """Returns the files of a named corpus, in reading order.

    Raises:
        CorpusError: if this Python comes without its source.
        DownloadError: if the file has to be fetched and cannot be.
    """
    if name == "python-stdlib":
        return python_stdlib_files(Path(sysconfig.get_path("stdlib")))  # the base Python's, also inside a venv
    return [fetch(TINY_SHAKESPEARE, cache)]


def python_stdlib_files(folder: Path) -> list[Path]:
    """Returns the `*.py` files of a standard library by relative path, without its tests and installed packages.

    Tests are left out because half of their bytes are data and repetition.

    Raises:
        CorpusError: if there is none, as in builds that ship compiled files only.
    """
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _TEST_FOLDERS | _FOREIGN_FOLDERS]
        found += [Path(parent, name) for name in names if name.endswith(".py")]
    if not found:
        raise CorpusError(f"This Python has no source files in {folder}.", "Name a text file or folder instead.")
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def fetch(download: Download, cache: Path, timeout_s: float = 30.0) -> Path:
    """Returns the file in the cache folder, downloaded if it is not there or not whole.

    Raises:
        DownloadError: if it cannot be fetched, or what came is not the file it should be.
    """
    path = cache / download.filename
    if path.is_file() and sha256_of(path) == download.sha256:
        return path
    try:
        with urllib.request.urlopen(download.url, timeout=timeout_s) as response:
            content = response.read(DOWNLOAD_LIMIT_BYTES)
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DownloadError(
            f"Cannot download {download.name} from {download.url} ({reason}); "
            f"save that file by any means and name its path in place of {download.name!r}."
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != download.sha256:
        raise DownloadError(
            f"{download.url} gave another file than {download.name} (SHA-256 {found[:12]}..., "
            f"not {download.sha256[:12]}...); save the right one and name its path in place of {download.name!r}."
        )
    write_atomically(path, lambda stream: stream.write(content))
    return path
