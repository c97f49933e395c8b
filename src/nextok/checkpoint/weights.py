"""Named arrays to and from safetensors files, without holding a second copy of them in memory.

Nothing is executed on reading. Arrays that share their memory (a tied embedding and head) are stored once; the other
names stand in the metadata, as the safetensors library has it, and come back as the same array.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint.header import STORAGE, Entry, Header, encode_header, read_header
from nextok.files import write_atomically

Arrays = Mapping[str, NDArray[Any]]


class TensorSpec(NamedTuple):
    """Shape and dtype of a stored tensor; the dtype is the file's own word, such as F32 or BF16."""

    shape: tuple[int, ...]
    dtype: str


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
    stream.write(encode_header(ordered, {"format": "pt", **(metadata or {}), **aliases}))
    for array in ordered.values():
        flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1)
        stream.write(flat.view(np.uint8).data)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Returns the arrays of a safetensors file by name, read from disk when they are first touched.

    Each array is its own private mapping of the file: writing to it never changes the file, and dropping it gives its
    memory back. A reader that takes arrays out one by one (`pop`) therefore needs the room of one, not of all. BF16 is
    widened to float32 exactly, in memory. Tied names hold the same array object.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    header = read_header(path)
    arrays = {name: _mapped(path, entry) for name, entry in header.entries.items()}
    return arrays | {alias: arrays[name] for alias, name in _aliases(header).items()}


def read_weight_shapes(path: Path) -> dict[str, TensorSpec]:
    """Returns shape and dtype of every tensor of a safetensors file, tied names included, from the header alone.

    Raises:
        CheckpointError: if the file is missing, cut short, of another kind, or contradicts itself.
    """
    header = read_header(path)
    specs = {name: TensorSpec(entry.shape, entry.dtype) for name, entry in header.entries.items()}
    return specs | {alias: specs[name] for alias, name in _aliases(header).items()}


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


def _mapped(path: Path, entry: Entry) -> NDArray[Any]:
    dtype = STORAGE[entry.dtype]
    if 0 in entry.shape:  # an empty mapping is refused by the system
        return np.empty(entry.shape, np.float32 if entry.dtype == "BF16" else dtype)
    # Copy-on-write keeps the file safe and the array writable, which torch.from_numpy wants.
    array = np.asarray(np.memmap(path, dtype, mode="c", offset=entry.begin, shape=entry.shape))
    if entry.dtype == "BF16":  # the upper half of a float32, so the widening is exact
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array if array.flags.aligned else array.copy()  # other writers order tensors in other ways
