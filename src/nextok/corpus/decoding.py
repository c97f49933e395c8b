"""From a file to text in bounded pieces: unpacking, byte-order marks, decoding that names the bad byte.

Nothing here holds more than a few mebibytes, however large the file is or however long its lines are.
"""

import bz2
import codecs
import gzip
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.sources import Compression, SourceFile
from nextok.errors import CorpusError, MissingExtraError

CHUNK_BYTES = 1 << 20
_ZSTD_CHUNK_BYTES = 1 << 13  # one input byte can unpack to tens of kilobytes, and this decoder has no output limit

_OPENERS: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}

_MARKS = (  # UTF-32 before UTF-16: the mark of the one begins with the mark of the other
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ERROR_HANDLERS = {"strict": "strict", "replace": "replace", "keep": "surrogateescape"}
_KEPT_BYTES = re.compile("([\udc80-\udcff]+)")  # how `surrogateescape` spells a byte that is not UTF-8


def decoded(file: SourceFile, config: CorpusConfig, counts: ReadCounts) -> Iterator[str]:
    """Yields the text of the file in pieces of about 1 MiB that never end between CR and LF.

    A bad byte that is kept becomes one lone surrogate, which `raw_bytes` turns back.

    Raises:
        CorpusError: if the file cannot be read or unpacked, or holds a bad byte under `strict` (with its offset).
        MissingExtraError: if unpacking needs a package that is not installed.
    """
    chunks = byte_chunks(file, counts)
    head = _first_bytes(chunks, 4)
    encoding, mark_bytes = _sniff(head, config.encoding)
    if mark_bytes:
        counts.byte_order_marks += 1
        counts.utf16_files += encoding != "utf-8"
    handler = _ERROR_HANDLERS[config.bad_bytes]
    if handler == "surrogateescape" and encoding != "utf-8":
        handler = "strict"  # in UTF-16 no single byte is bad, so there is none to keep
    decoder = codecs.getincrementaldecoder(encoding)(handler)
    held, fed_bytes = "", mark_bytes
    for chunk in itertools.chain([head[mark_bytes:]], chunks, [None]):
        data = chunk or b""
        fed_bytes += len(data)
        try:
            text = held + decoder.decode(data, final=chunk is None)
        except UnicodeDecodeError as error:
            raise _bad_byte(file, error, fed_bytes - len(error.object) + error.start, encoding) from error
        held = "\r" if text.endswith("\r") and chunk is not None else ""
        if len(text) > len(held):
            yield text[: len(text) - len(held)]


def byte_chunks(file: SourceFile, counts: ReadCounts) -> Iterator[bytes]:
    """Yields the unpacked bytes of the file in pieces; `counts.disk_bytes` follows the bytes read from disk.

    Raises:
        CorpusError: if the file cannot be read, is not what its suffix says, or is cut short.
        MissingExtraError: for `.zst` without the package zstandard.
    """
    before = counts.disk_bytes
    try:
        with file.path.open("rb") as raw:
            for chunk in _unpacked(raw, file.compression):
                counts.disk_bytes = before + raw.tell()
                yield chunk
        counts.disk_bytes = before + file.path.stat().st_size
    except EOFError as error:
        raise CorpusError(f"{file.path} is cut short.", "Copy or download it again.") from error
    except (OSError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CorpusError(f"Cannot read {file.path}: {reason}.", "Check the file and its permissions.") from error


def raw_bytes(text: str) -> bytes:
    """Returns the UTF-8 bytes of decoded text, kept bad bytes as they were in the file."""
    return text.encode("utf-8", errors="surrogateescape")


def around_kept_bytes(text: str, change: Callable[[str], str]) -> str:
    """Returns decoded text with `change` applied to everything but the bad bytes it carries."""
    if text.isascii():
        return change(text)
    parts = _KEPT_BYTES.split(text)  # text, bytes, text, ..., text
    parts[0::2] = map(change, parts[0::2])
    return "".join(parts)


def count_kept_bytes(text: str) -> int:
    """Returns the number of bad bytes that decoded text carries."""
    return 0 if text.isascii() else sum(map(len, _KEPT_BYTES.findall(text)))


def _unpacked(raw: BinaryIO, compression: Compression) -> Iterator[bytes]:
    if compression == "zst":
        return _unpacked_zstd(raw)
    return _read_all(raw if compression == "none" else _OPENERS[compression](raw))


def _read_all(stream: BinaryIO) -> Iterator[bytes]:
    with stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _unpacked_zstd(raw: BinaryIO) -> Iterator[bytes]:
    zstandard = _zstandard()
    unpacker = None  # the package's own stream reader takes a file that is cut short for a whole one
    while data := raw.read(_ZSTD_CHUNK_BYTES):
        while data:
            unpacker = unpacker or zstandard.ZstdDecompressor().decompressobj()
            try:
                chunk = unpacker.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            data = b""
            if unpacker.eof:
                data, unpacker = unpacker.unused_data, None
            if chunk:
                yield chunk
    if unpacker is not None:
        raise EOFError


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415 - optional extra
    except ImportError as error:
        raise MissingExtraError("Reading .zst files needs zstandard.", "pip install 'nextok[formats]'") from error
    return zstandard


def _first_bytes(chunks: Iterator[bytes], least: int) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= least:
            break
    return head


def _sniff(head: bytes, encoding: str) -> tuple[str, int]:
    name = codecs.lookup(encoding).name.removesuffix("-sig")
    if name.startswith(("utf-8", "utf-16", "utf-32")):
        for mark, marked in _MARKS:
            if head.startswith(mark):
                return marked, len(mark)
    return name, 0


def _bad_byte(file: SourceFile, error: UnicodeDecodeError, offset: int, encoding: str) -> CorpusError:
    value = error.object[error.start]
    where = "" if file.compression == "none" else " of its unpacked bytes"
    message = f"{file.path} is not valid {encoding}: byte 0x{value:02x} at offset {offset}{where} ({error.reason})."
    single = "cp1252" if encoding.startswith("utf") else "utf-8"
    keep = " or keep" if encoding == "utf-8" else ""
    return CorpusError(
        message, f"Name the encoding it was saved in (--encoding {single}), or say --bad-bytes replace{keep}."
    )
