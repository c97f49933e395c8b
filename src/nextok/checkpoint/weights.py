"""Named arrays to and from safetensors files, one at a time: neither way holds a whole file in memory.

Nothing is executed on reading. Arrays that share their memory (a tied embedding and head) are stored once; the other
names stand in the metadata, as the safetensors library has it, and come back as the same array.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint.header import (
    STORAGE,
    Entry,
    Header,
    TensorSpec,
    encode_header,
    header_of,
    open_weights,
    read_header,
    spec_of,
)
from nextok.errors import CheckpointError
from nextok.files import write_atomically

Arrays = Mapping[str, NDArray[Any]]


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of one safetensors file by name, each read from disk when it is asked for.

    An array is the caller's own, and dropping it gives its memory back, so a reader that takes them one by one needs
    the room of one. While it is in use, asking again gives the same array, and so do tied names. The file is the one
    that was opened, whatever is written to its path later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = open_weights(path)
        weakref.finalize(self, self._stream.close)
        self._header = header_of(self._stream, path)
        self._aliases = _aliases(self._header)
        self._in_use: weakref.WeakValueDictionary[str, NDArray[Any]] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()  # the stream has one position

    def __getitem__(self, name: str) -> NDArray[Any]:
        stored = self._aliases.get(name, name)
        entry = self._header.entries[stored]
        with self._lock:
            array = self._in_use.get(stored)
            if array is None:
                array = self._in_use[stored] = self._read(entry)
        return array

    def __iter__(self) -> Iterator[str]:
        yield from self._header.entries
        yield from self._aliases

    def __len__(self) -> int:
        return len(self._header.entries) + len(self._aliases)

    def __contains__(self, name: object) -> bool:  # Mapping's own would read the array
        return name in self._header.entries or name in self._aliases

    def _read(self, entry: Entry) -> NDArray[Any]:
        array = np.empty(entry.shape, STORAGE[entry.dtype])
        try:
            self._stream.seek(entry.begin)
            count = self._stream.readinto(array.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise CheckpointError(f"Cannot read the weights {self._path}: {error.strerror or error}.") from error
        if count < array.nbytes:
            raise CheckpointError(f"{self._path} was cut short while it was read.", "Copy or download it again.")
        return _widened(array) if entry.dtype == "BF16" else array


def write_weights(path: Path, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    """Writes the arrays atomically as one safetensors file that transformers opens too.

    Args:
        path: The file; an older one is replaced only when the new one is complete.
        arrays: By name. Those that share memory, shape and strides are stored once, under the first name given.
        metadata: Free text by name; `format: pt` is added, because transformers refuses files without it.

    Raises:
        DiskError: if the file cannot be written; an older one stays as it was.
        TypeError: if an array has a dtype that safetensors cannot hold.
    """
    write_atomically(path, lambda stream: write_weights_to(stream, arrays, metadata))


def write_weights_to(stream: BinaryIO, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    """Writes what `write_weights` writes to an open binary stream; copies at most one array at a time."""
    kept, aliases = _stored_once(arrays)
    # Widest first: then every tensor starts at a multiple of its item size, as the safetensors library lays them out.
    ordered = dict(sorted(kept.items(), key=lambda item: -item[1].dtype.itemsize))
    specs = {name: spec_of(name, array) for name, array in ordered.items()}
    _write(stream, specs, ordered.items(), {**(metadata or {}), **aliases})


def stream_weights(path: Path, specs: Mapping[str, TensorSpec], arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
    """Writes what `write_weights` writes, from arrays that come one at a time and are let go one by one.

    Args:
        path: The file; an older one is replaced only when the new one is complete.
        specs: Shape and dtype in the file of every array that will come, by name; not BF16.
        arrays: Name and array of each, in the order of the specs.

    Raises:
        DiskError: if the file cannot be written; an older one stays as it was.
    """
    write_atomically(path, lambda stream: _write(stream, specs, arrays, {}))


def read_weights(path: Path) -> StoredArrays:
    """Returns the arrays of a safetensors file by name; BF16 is widened to float32 exactly.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    return StoredArrays(path)


def map_weights(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Returns the arrays of a safetensors file as mappings of it, and its metadata: nothing is read until it is used.

    Writing to an array changes memory only, never the file. BF16 comes as its bits, uint16.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    header = read_header(path)
    arrays = {
        name: np.asarray(np.memmap(path, STORAGE[entry.dtype], mode="c", offset=entry.begin, shape=entry.shape))
        for name, entry in header.entries.items()
        if 0 not in entry.shape  # an empty mapping is refused by the system
    }
    return arrays, header.metadata


def read_weight_shapes(path: Path) -> dict[str, TensorSpec]:
    """Returns shape and dtype of every tensor of a safetensors file, tied names included, from the header alone.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    header = read_header(path)
    specs = {name: TensorSpec(entry.shape, entry.dtype) for name, entry in header.entries.items()}
    return specs | {alias: specs[name] for alias, name in _aliases(header).items()}


def _write(
    stream: BinaryIO,
    specs: Mapping[str, TensorSpec],
    arrays: Iterable[tuple[str, NDArray[Any]]],
    metadata: Mapping[str, str],
) -> None:
    stream.write(encode_header(specs, {"format": "pt", **metadata}))
    awaited = iter(specs.items())
    for given, array in arrays:  # not zipped: zip holds on to an array while the next one is made
        name, spec = next(awaited, ("nothing", TensorSpec((), "")))
        assert (given, array.shape) == (name, spec.shape), f"{given} {array.shape} came for {name} {spec.shape}"
        flat = np.ascontiguousarray(array, dtype=STORAGE[spec.dtype]).reshape(-1)
        stream.write(flat.view(np.uint8).data)
        del array, flat
    left = [name for name, _ in awaited]
    assert not left, f"never came: {left}"


def _stored_once(arrays: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Returns the arrays to store, and for each name that is left out the name that stands for it."""
    kept: dict[str, NDArray[Any]] = {}
    aliases: dict[str, str] = {}
    first_names: dict[object, str] = {}
    for name, array in arrays.items():
        memory = (array.ctypes.data, array.shape, array.strides, array.dtype) if array.size else name
        first = first_names.setdefault(memory, name)
        if first == name:
            kept[name] = array
        else:
            aliases[name] = first
    return kept, aliases


def _aliases(header: Header) -> dict[str, str]:
    return {
        alias: name
        for alias, name in header.metadata.items()
        if name in header.entries and alias not in header.entries and alias != "format"
    }


def _widened(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Returns bfloat16 as float32: it is the upper half of one, so the widening is exact."""
    wide = np.empty(bits.shape, np.uint32)
    np.left_shift(bits, np.uint32(16), out=wide, dtype=np.uint32)
    return wide.view(np.float32)
