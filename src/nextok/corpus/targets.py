"""Which tokens of a split are targets: those of completions and plain texts, not those of prompts.

Stored as borders, positions at which counting begins, ends, begins again: two numbers a pair, however long it is, and
one file beside the token shards, mapped when it is used. A split whose tokens all count has no such file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nextok.corpus.shards import HEADER_BYTES, ArrayWriter, check_array
from nextok.errors import CorpusError

IGNORED = -100
"""A target that does not count: torch's `ignore_index`, and so the model's."""

BORDER_DTYPE = np.dtype("<i8")
_WAITING_BORDERS = 1 << 14  # are written together: a pair alone would cost a write each


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetRecord:
    """The targets of a split in which not every token is one, as the manifest tells them."""

    tokens: int
    """Tokens that count, the end of text after each completion among them."""
    bytes: int
    """UTF-8 bytes that they stand for."""
    borders: int
    """Numbers in the file, two a stretch of tokens that count."""


class TargetWriter:
    """Writes the borders of a split, if it has any: no file is made while every token counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: ArrayWriter | None = None
        self._borders: list[int] = []
        self._counting = False
        self._position = self._tokens = self._size_bytes = 0

    def add(self, tokens: int, size_bytes: int, *, counts: bool) -> None:
        """Adds the next tokens of the split, which stand for so many bytes."""
        if not tokens:
            return
        if counts != self._counting:
            self._borders.append(self._position)
            self._counting = counts
        self._position += tokens
        if counts:
            self._tokens += tokens
            self._size_bytes += size_bytes
        if len(self._borders) > _WAITING_BORDERS and self._tokens < self._position:
            self._write()

    def close(self) -> None:
        """Ends the last stretch and closes the file, where there is one."""
        if self._tokens == self._position:
            return
        if self._counting:
            self._borders.append(self._position)
            self._counting = False
        try:
            self._write()
        finally:
            if self._writer is not None:
                self._writer.close()

    def record(self) -> TargetRecord | None:
        """Returns what to tell of a split that was closed; None where every token counts."""
        if self._writer is None:
            return None
        return TargetRecord(tokens=self._tokens, bytes=self._size_bytes, borders=self._writer.length)

    def _write(self) -> None:
        self._writer = self._writer or ArrayWriter(self._path, BORDER_DTYPE)
        self._writer.append(np.array(self._borders, dtype=np.int64))
        self._borders = []


class Targets:
    """Says of any position of a split whether its token counts.

    Raises:
        CorpusError: if the file is missing, not whole, or no token counts.
    """

    def __init__(self, path: Path, record: TargetRecord) -> None:
        self.tokens, self.size_bytes = record.tokens, record.bytes
        self._path, self._length = path, record.borders
        self._mapped: npt.NDArray[Any] | None = None
        if record.tokens < 1 or record.bytes < 1 or record.borders < 2:
            raise CorpusError(f"In {path.parent} no token is one to learn.", "Prepare the corpus again.")
        check_array(path, BORDER_DTYPE, record.borders)

    def count_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns for each position whether its token counts, in the shape of the positions."""
        return np.searchsorted(self._borders(), positions, side="right") % 2 == 1

    def _borders(self) -> npt.NDArray[Any]:
        if self._mapped is None:
            mapped = np.memmap(self._path, BORDER_DTYPE, "r", offset=HEADER_BYTES, shape=(self._length,))
            self._mapped = mapped.view(np.ndarray)
        return self._mapped
