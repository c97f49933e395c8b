"""Token ids on disk: `.npy` files written in bounded memory and read through a memory map.

Ids are stored as uint16 where the vocabulary allows it and as uint32 otherwise, little-endian on every machine. NumPy
wraps an id that is too large without a word when it casts, so ids are checked against the vocabulary on the way in and
on the way out. Axis letters: B windows, T positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from nextok.errors import CorpusError

if TYPE_CHECKING:
    from nextok.corpus.targets import Targets

SHARD_TOKENS = 1 << 27
"""Most tokens in one file: 256 MiB as uint16."""

HEADER_BYTES = 128
"""Before the values of a file: a multiple of 64, as the format wants, and always long enough for one axis."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord:
    """One file of tokens, as the manifest lists it."""

    name: str
    """File name in the corpus folder."""
    tokens: int
    """Ids in it, at least 1."""


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """Returns the smallest stored type that holds every id below `vocab_size`: little-endian uint16 or uint32."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


class ArrayWriter:
    """Writes one 1-D `.npy` file piece by piece; its length is put into the header at the end."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.length = path, dtype, 0
        self._stream = path.open("wb")
        self._stream.write(_npy_header(dtype, 0))

    def append(self, values: npt.NDArray[Any]) -> None:
        """Adds the values; the caller has checked that they fit the type."""
        self._stream.write(values.astype(self.dtype).tobytes())
        self.length += len(values)

    def close(self) -> None:
        """Writes the header with the final length and closes the file, also where the disk is full."""
        try:
            self._stream.seek(0)
            self._stream.write(_npy_header(self.dtype, self.length))
        finally:
            self._stream.close()


class ShardWriter:
    """Writes the ids of one split into shards `NAME-00000.npy`, `NAME-00001.npy`, ... of a folder.

    Use it as a context: on any way out the open file is closed.

    Args:
        folder: Existing folder.
        name: Split, such as `train`.
        vocab_size: Number of ids; an id outside 0..vocab_size-1 is an error.
        shard_tokens: Most ids in a file.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int, shard_tokens: int = SHARD_TOKENS) -> None:
        self.length, self.largest_id = 0, -1
        self._folder, self._name = folder, name
        self._vocab_size, self._shard_tokens = vocab_size, shard_tokens
        self._records: list[ShardRecord] = []
        self._writer: ArrayWriter | None = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shards(self) -> tuple[ShardRecord, ...]:
        """The finished files, in order."""
        return tuple(self._records)

    def append(self, ids_T: npt.NDArray[np.integer[Any]]) -> None:
        """Adds the ids.

        Raises:
            CorpusError: if an id is outside the vocabulary.
        """
        if not np.issubdtype(ids_T.dtype, np.integer):
            raise TypeError(f"ids must be integers, not {ids_T.dtype}")
        if not len(ids_T):
            return
        self.largest_id = max(self.largest_id, check_ids(ids_T, self._vocab_size, f"the {self._name} split"))
        self.length += len(ids_T)
        while len(ids_T):
            writer = self._writer or self._open_shard()
            room = self._shard_tokens - writer.length
            writer.append(ids_T[:room])
            ids_T = ids_T[room:]
            if writer.length == self._shard_tokens:
                self.close()

    def _open_shard(self) -> ArrayWriter:
        path = self._folder / f"{self._name}-{len(self._records):05d}.npy"
        self._writer = ArrayWriter(path, id_dtype(self._vocab_size))
        return self._writer

    def close(self) -> None:
        """Finishes the last file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._records.append(ShardRecord(name=writer.path.name, tokens=writer.length))


class TokenSplit:
    """The ids of one split as one sequence, mapped from its shards at first use.

    Args:
        folder: The prepared corpus.
        name: Split, such as `train`.
        shards: Its files in order.
        vocab_size: Number of ids.
        size_bytes: UTF-8 bytes that the ids stand for.
        targets: Which tokens are learned and scored; None: all of them.

    Raises:
        CorpusError: if a file is missing, empty, cut short, or of another type than the manifest says.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        shards: Sequence[ShardRecord],
        *,
        vocab_size: int,
        size_bytes: int,
        targets: "Targets | None" = None,
    ) -> None:
        self.name, self.vocab_size, self.size_bytes, self.targets = name, vocab_size, size_bytes, targets
        self._folder, self._dtype = folder, id_dtype(vocab_size)
        self._paths = [folder / shard.name for shard in shards]
        self._borders = np.cumsum([0] + [shard.tokens for shard in shards])
        self._maps: dict[int, npt.NDArray[Any]] = {}
        for path, shard in zip(self._paths, shards, strict=True):
            check_array(path, self._dtype, shard.tokens)

    def __len__(self) -> int:
        return int(self._borders[-1])

    @property
    def bytes_per_token(self) -> float:
        """UTF-8 bytes of text per token that counts: divides bits per token into bits per byte."""
        if self.targets is not None:
            return self.targets.size_bytes / self.targets.tokens
        return self.size_bytes / len(self)

    @property
    def has_target(self) -> bool:
        """Whether any token after the first, which nothing predicts, is learned and scored."""
        if self.targets is None:
            return len(self) > 1
        return self.targets.tokens > int(self.targets.count_at(np.array(0)))

    def tokens(self, start: int, stop: int) -> Ids:
        """Returns the ids at start..stop-1, int64 [stop - start]."""
        return self.windows(np.array([start]), stop - start)[0]

    def windows(self, starts_B: npt.ArrayLike, length: int) -> Ids:
        """Returns the ids at start..start+length-1 for each start, int64 [B, length].

        Raises:
            IndexError: if a window reaches outside the split.
            CorpusError: if the files hold an id outside the vocabulary.
        """
        starts = np.asarray(starts_B, dtype=np.int64)
        if length < 0 or (starts.size and (starts.min() < 0 or starts.max() + length > len(self))):
            raise IndexError(f"windows of {length} ids reach outside the {len(self)} tokens of {self.name}")
        if not starts.size or not length:
            return np.empty((starts.size, length), dtype=np.int64)
        ids_BT = self._gather(starts, length)
        check_ids(ids_BT, self.vocab_size, str(self._folder))
        return ids_BT.astype(np.int64)

    def _gather(self, starts_B: Ids, length: int) -> npt.NDArray[Any]:
        shards_B = np.searchsorted(self._borders, starts_B, side="right") - 1
        first = int(shards_B[0])
        offset, end = self._borders[first], self._borders[first + 1]
        if starts_B.min() >= offset and starts_B.max() + length <= end:
            return sliding_window_view(self._shard(first), length)[starts_B - offset]
        ids_BT = np.empty((len(starts_B), length), dtype=self._dtype)
        for row, (start, shard) in enumerate(zip(starts_B.tolist(), shards_B.tolist(), strict=True)):
            self._copy(ids_BT[row], start, shard)
        return ids_BT

    def _copy(self, ids_T: npt.NDArray[Any], start: int, shard: int) -> None:
        filled = 0
        while filled < len(ids_T):
            inside = start + filled - int(self._borders[shard])
            part = self._shard(shard)[inside : inside + len(ids_T) - filled]
            ids_T[filled : filled + len(part)] = part
            filled, shard = filled + len(part), shard + 1

    def _shard(self, index: int) -> npt.NDArray[Any]:
        if index not in self._maps:
            mapped = np.memmap(self._paths[index], self._dtype, "r", offset=HEADER_BYTES)
            self._maps[index] = mapped.view(np.ndarray)  # the subclass costs microseconds at each index
        return self._maps[index]


def check_ids(ids: npt.NDArray[np.integer[Any]], vocab_size: int, where: str) -> int:
    """Returns the largest id.

    Raises:
        CorpusError: if an id is negative or not below `vocab_size`.
    """
    smallest, largest = int(ids.min()), int(ids.max())
    if smallest < 0 or largest >= vocab_size:
        wrong = smallest if smallest < 0 else largest
        raise CorpusError(
            f"Token id {wrong} in {where} is outside the vocabulary of {vocab_size} ids.",
            "The tokenizer and the corpus do not belong together; prepare the corpus again.",
        )
    return largest


def check_array(path: Path, dtype: np.dtype[Any], length: int) -> None:
    """Checks that a `.npy` file is whole and of this type and length, by its header and size.

    Raises:
        CorpusError: if it is not.
    """
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as stream:
            header = stream.read(HEADER_BYTES)
    except OSError as error:
        raise CorpusError(f"Cannot read the shard {path}: {error.strerror}.", _PREPARE_AGAIN) from error
    expected_bytes = HEADER_BYTES + length * dtype.itemsize
    if length < 1 or size_bytes != expected_bytes:
        raise CorpusError(
            f"The shard {path} has {size_bytes:,} bytes where {length:,} tokens take {expected_bytes:,}: "
            f"it is {'empty' if length < 1 or size_bytes <= HEADER_BYTES else 'not whole'}.",
            _PREPARE_AGAIN,
        )
    if header != _npy_header(dtype, length):
        raise CorpusError(f"The shard {path} is not {length:,} ids of type {dtype.name}.", _PREPARE_AGAIN)


_PREPARE_AGAIN = "Prepare the corpus again, or copy the whole folder."


def _npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """Returns the header of format version 1.0, of one size for every length so that it can be written over."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    padded = text.encode("latin-1").ljust(HEADER_BYTES - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded
