"""The header of a safetensors file, checked as a whole before one byte behind it is used.

Layout: 8 bytes with the header's length (little-endian), a JSON object padded with spaces to a multiple of 8, then the
bytes of all tensors without holes. Handled here, and not by the safetensors library, because its NumPy side refuses
bfloat16 and reports a full disk or a cut file in words of its own; tests hold the two to the same bytes.
"""

import io
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextok.errors import CheckpointError
from nextok.files import from_json, to_json

STORAGE: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F16": np.dtype("<f2"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "BF16": np.dtype("<u2"),  # NumPy has no bfloat16: its bits are read as integers and widened
}
_NAMES = {dtype: name for name, dtype in STORAGE.items() if name != "BF16"}
_MOST_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
_CACHE_LINE_BYTES = 64
_AGAIN = "Copy or download it again."
_CONVERT = "Convert it with nextok import."
_FOREIGN = {
    b"PK\x03\x04": ("a PyTorch file made with torch.save", _CONVERT),
    b"\x80": ("a pickle", _CONVERT),
    b"GGUF": ("a GGUF file", _CONVERT),
    b"version https": ("a Git LFS pointer", "Download the weights themselves with git lfs pull."),
}


class TensorSpec(NamedTuple):
    """Shape and dtype of a stored tensor; the dtype is the file's own word, such as F32 or BF16."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One tensor of a file."""

    dtype: str
    """Its name in the file, such as F32 or BF16."""
    shape: tuple[int, ...]
    """Its sizes, outermost first."""
    begin: int
    """Where its bytes start, counted from the start of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a file says of itself."""

    entries: dict[str, Entry]
    """The tensors by name, in the order of their bytes."""
    metadata: dict[str, str]
    """Free text by name."""


def spec_of(name: str, array: NDArray[Any]) -> TensorSpec:
    """Returns how an array is stored.

    Raises:
        TypeError: if it has a dtype that the format does not know (objects, text, complex numbers).
    """
    dtype = _NAMES.get(array.dtype.newbyteorder("<"))
    if dtype is None:
        raise TypeError(f"the array {name!r} has dtype {array.dtype}, which safetensors cannot hold")
    return TensorSpec(array.shape, dtype)


def encode_header(specs: Mapping[str, TensorSpec], metadata: Mapping[str, str]) -> bytes:
    """Returns the header of a file that holds such tensors one after the other in the given order."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, spec in specs.items():
        end = begin + nbytes(spec)
        table[name] = {"dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [begin, end]}
        begin = end
    text = to_json(table).encode("utf-8")
    text += b" " * (-(8 + len(text)) % _CACHE_LINE_BYTES)  # where the file is mapped, tensors lie on whole lines
    return struct.pack("<Q", len(text)) + text


def read_header(path: Path) -> Header:
    """Returns the header of a safetensors file after checking it against the file's size.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    with open_weights(path) as stream:
        return header_of(stream, path)


def open_weights(path: Path) -> io.BufferedReader:
    """Returns the file opened for reading.

    Raises:
        CheckpointError: if it cannot be.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"Cannot read the weights {path}: {error.strerror or error}.") from error


def header_of(stream: BinaryIO, path: Path) -> Header:
    """Returns what `read_header` returns, from the start of the opened file; the path is for messages."""
    try:
        table, data_begin = _read_table(stream, path)
        size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise CheckpointError(f"Cannot read the weights {path}: {error.strerror or error}.") from error
    metadata = table.pop("__metadata__", {})
    try:
        entries = {name: _entry(value, data_begin) for name, value in table.items()}
        metadata = {str(name): str(text) for name, text in metadata.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not a whole safetensors file: its header makes no sense ({error})."
        ) from error
    ordered = dict(sorted(entries.items(), key=lambda item: item[1].begin))
    _check_extent(ordered, data_begin, size, path)
    return Header(entries=ordered, metadata=metadata)


def nbytes(tensor: Entry | TensorSpec) -> int:
    """Returns the number of bytes the tensor takes in the file."""
    return math.prod(tensor.shape) * STORAGE[tensor.dtype].itemsize


def _read_table(stream: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    """Returns the header's JSON and where the tensor bytes begin."""
    start = stream.read(16)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 8:
        raise CheckpointError(f"{path} is cut short: it has {len(start)} bytes.", _AGAIN)
    if length > _MOST_HEADER_BYTES:  # only then: a header of 128 bytes starts like a pickle
        raise CheckpointError(*_foreign(start, path))
    stream.seek(8)
    text = stream.read(length)
    if len(text) < length:
        raise CheckpointError(f"{path} is cut short: it ends inside its header.", _AGAIN)
    try:
        table = from_json(text)
    except ValueError as error:
        raise CheckpointError(f"{path} is not a safetensors file: its header is not JSON.") from error
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} is not a safetensors file: its header is not a JSON object.")
    return table, 8 + length


def _foreign(start: bytes, path: Path) -> tuple[str, str]:
    """Returns the message and the hint for a file that starts as no safetensors file does."""
    for magic, (words, hint) in _FOREIGN.items():
        if start.startswith(magic):
            return f"{path} is not a safetensors file but {words}.", hint
    return f"{path} is not a safetensors file.", ""


def _entry(value: Any, data_begin: int) -> Entry:
    dtype, shape, (begin, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
    if dtype not in STORAGE:
        raise ValueError(f"dtype {dtype} is not supported")
    if not all(type(size) is int and size >= 0 for size in (*shape, begin, end)):
        raise ValueError("a size or an offset is not a whole number")
    entry = Entry(dtype=dtype, shape=shape, begin=data_begin + begin)
    if end - begin != nbytes(entry):
        raise ValueError(f"a tensor of shape {list(shape)} and dtype {dtype} does not take {end - begin} bytes")
    return entry


def _check_extent(entries: Mapping[str, Entry], data_begin: int, size: int, path: Path) -> None:
    """Refuses holes, overlaps, and a file that is shorter or longer than its header says."""
    end = data_begin
    for name, entry in entries.items():
        if entry.begin != end:
            raise CheckpointError(f"{path} is not a whole safetensors file: the bytes of {name!r} are misplaced.")
        end += nbytes(entry)
    if size < end:
        raise CheckpointError(f"{path} is cut short: it has {size:,} of {end:,} bytes.", _AGAIN)
    if size > end:
        raise CheckpointError(f"{path} has {size:,} bytes where its header accounts for {end:,}.")
