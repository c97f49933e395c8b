"""Corpora that have a name: Python's own standard library, and tiny shakespeare.

Only the second needs the network, once; a file the user names always works in its place.
"""

import os
import sysconfig
from pathlib import Path

from nextok.download import Download, fetch
from nextok.errors import CorpusError

NAMED: dict[str, str] = {
    "python-stdlib": "the source of the Python that runs, about 12 MB, no download",
    "tinyshakespeare": "1.1 MB of Shakespeare's plays, downloaded once",
}
"""Names that `find_files` knows, each with what it is."""

_TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__"})

TINY_SHAKESPEARE = Download(
    url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    filename="tinyshakespeare.txt",
    instead="Save that file by any means and name its path in place of tinyshakespeare.",
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
