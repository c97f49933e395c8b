"""Arrays in pieces: several processes write the rows they hold into a file each, and any number of readers join them.

The files are those of torch.distributed.checkpoint's safetensors storage: each names the place of its pieces in its
metadata (`DCP_SHARDING_INFO`), and there is no file besides, pickled or not, that must be believed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint.header import read_header
from nextok.checkpoint.weights import Arrays, StoredArrays, write_weights_to
from nextok.errors import CheckpointError
from nextok.files import from_json, sha256_of, to_json

_PLACES = "DCP_SHARDING_INFO"
_OFFSETS = "saved_offsets"


class Piece(NamedTuple):
    """Some rows of an array."""

    rows: NDArray[Any]
    first: int
    """Which row of the whole array the first one is."""


def write_pieces(path: Path, pieces: Mapping[str, Piece]) -> dict[str, object]:
    """Writes pieces of arrays as one safetensors file, and returns its size and SHA-256; empty ones are left out."""
    held = {name: piece for name, piece in pieces.items() if piece.rows.size}
    places = {
        name: {_OFFSETS: [piece.first] * (piece.rows.ndim > 0) + [0] * (piece.rows.ndim - 1)}
        for name, piece in held.items()
    }
    with path.open("wb") as stream:
        metadata = {_PLACES: to_json(places), "DCP_VERSION": "1.0"}
        write_weights_to(stream, {name: piece.rows for name, piece in held.items()}, metadata)
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


class JoinedArrays(Mapping[str, NDArray[Any]]):
    """The whole arrays of several files of pieces, each read when it is asked for.

    Args:
        paths: All the files that were written together.

    Raises:
        CheckpointError: if one is damaged, or a piece is missing.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._folder = paths[0].parent
        self._pieces: dict[str, list[tuple[int, int, StoredArrays]]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for path in paths:
            self._add(path)
        for name, pieces in self._pieces.items():
            pieces.sort(key=lambda piece: piece[0])
            self._check(name, pieces)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.rows(name, 0, (*self._shapes[name], 1)[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __contains__(self, name: object) -> bool:  # Mapping's own would read the array
        return name in self._shapes

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of the whole array."""
        return self._shapes[name]

    def rows(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Returns rows first to last - 1, reading only the pieces in which they are; of a scalar, the scalar."""
        parts = [
            array[name] if not self._shapes[name] else array[name][max(0, first - start) : last - start]
            for start, end, array in self._pieces[name]
            if start < last and end > first
        ]
        if not parts:
            start, _, array = self._pieces[name][0]
            return array[name][:0]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _add(self, path: Path) -> None:
        header, arrays = read_header(path), StoredArrays(path)
        places = _places(path, header.metadata)
        for name, entry in header.entries.items():
            offsets = places.get(name, {}).get(_OFFSETS)
            rows = (*entry.shape, 1)[0]
            known = self._shapes.setdefault(name, entry.shape)
            if not isinstance(offsets, list) or any(offsets[1:]) or known[1:] != entry.shape[1:]:
                raise CheckpointError(f"{path} does not say which rows of {name} it holds.")
            first = offsets[0] if offsets else 0
            self._pieces.setdefault(name, []).append((first, first + rows, arrays))

    def _check(self, name: str, pieces: list[tuple[int, int, StoredArrays]]) -> None:
        end = 0
        for first, last, _ in pieces:
            if first != end:
                raise CheckpointError(f"{self._folder} has no whole {name}: rows {end} to {first - 1} are missing.")
            end = last
        if self._shapes[name]:
            self._shapes[name] = (end, *self._shapes[name][1:])


def rows_of(arrays: Arrays, name: str, first: int, last: int) -> tuple[tuple[int, ...], NDArray[Any]]:
    """Returns the shape of an array, and its rows first to last - 1, read alone where it lies in pieces."""
    if isinstance(arrays, JoinedArrays):
        return arrays.shape(name), arrays.rows(name, first, last)
    array = arrays[name]
    return array.shape, array[first:last] if array.ndim else array


def _places(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        places = from_json(metadata.get(_PLACES, ""))
    except ValueError:
        places = None
    if not isinstance(places, dict) or not all(isinstance(place, dict) for place in places.values()):
        raise CheckpointError(f"{path} does not say which part of the arrays it holds.")
    return places
