"""A file from the network: over https, known by its SHA-256, kept only when it is whole and the right one.

Nothing is asked of the network for a file that is there already.
"""

import hashlib
import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from nextok.errors import DownloadError
from nextok.files import sha256_of, write_atomically

_LARGEST_BYTES = 64 << 20  # more than that comes only from the wrong file, and is not read


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """A file that the network has, known by its content."""

    url: str
    """Where it is; https."""
    sha256: str
    """SHA-256 of its bytes in hexadecimal."""
    filename: str
    """Its name in the folder it is kept in."""
    instead: str
    """What to do where it cannot be downloaded: the hint of the error."""


def fetch(download: Download, folder: Path, *, timeout_s: float = 30.0) -> Path:
    """Returns the file in the folder, downloaded if it is not there or not whole.

    Args:
        download: What to fetch.
        folder: Where it is kept; made if needed.
        timeout_s: How long the other side may be silent, in seconds.

    Raises:
        DownloadError: if it cannot be fetched, or what came is not the file it should be; nothing is kept then.
        DiskError: if the folder cannot be written.
    """
    path = folder / download.filename
    if path.is_file() and sha256_of(path) == download.sha256:
        return path
    content = _content(download, timeout_s)
    found = hashlib.sha256(content).hexdigest()
    if found != download.sha256:
        raise DownloadError(
            f"What came from {download.url} is not {download.filename}: "
            f"{len(content):,} bytes with SHA-256 {found[:12]}..., not {download.sha256[:12]}....",
            download.instead,
        )
    write_atomically(path, lambda stream: stream.write(content))
    return path


def _content(download: Download, timeout_s: float) -> bytes:
    try:
        with _https_only().open(download.url, timeout=timeout_s) as answer:
            return answer.read(_LARGEST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is an answer as well, with an open connection
        cause = getattr(error, "reason", None) or error
        reason = getattr(cause, "strerror", None) or cause
        raise DownloadError(f"Cannot download {download.url}: {reason}.", download.instead) from error


def _https_only() -> urllib.request.OpenerDirector:
    """Returns an opener that knows no other scheme, so that no redirect leads out of https either."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener
