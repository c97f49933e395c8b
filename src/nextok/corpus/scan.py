"""The first pass over the text: how much there is, which characters, a fingerprint, and a sample to train BPE on."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nextok.corpus.decoding import raw_bytes
from nextok.corpus.documents import Piece
from nextok.corpus.pairs import Role

SAMPLE_BYTES = 64 << 20
"""Most text that a trained tokenizer is made from; merges found in more differ in rare words only."""

_ROLE_MARKS: dict[Role, bytes] = {"text": b"", "prompt": b"\xfe", "completion": b"\xff"}  # bytes that UTF-8 never has


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What is known of the text before it is encoded."""

    documents: int
    """Documents that hold text."""
    characters: int
    """Characters under the text rules."""
    fingerprint: str
    """SHA-256 of the documents under the text rules, in hexadecimal; file names and formats do not enter, parts do."""
    alphabet: tuple[str, ...] = ()
    """Each character once, in code point order; empty unless asked for."""
    sample: tuple[bytes, ...] = ()
    """Evenly spread pieces of UTF-8 text, at most `SAMPLE_BYTES`; empty unless asked for."""

    def sample_texts(self) -> Iterator[str]:
        """Yields the sample as text; bad bytes become U+FFFD."""
        for data in self.sample:
            yield data.decode("utf-8", errors="replace")


class Fingerprint:
    """SHA-256 over documents: of the digests of their texts, so that it does not depend on how they were cut."""

    def __init__(self) -> None:
        self._documents, self._document = hashlib.sha256(), hashlib.sha256()
        self._role: Role = "text"

    def add(self, data: bytes, *, ends_document: bool, role: Role = "text") -> None:
        """Adds the next bytes of the current document; where a pair has its border makes a difference."""
        if role != self._role:
            self._document.update(_ROLE_MARKS[role])
        self._role = "text" if ends_document else role
        self._document.update(data)
        if ends_document:
            self._documents.update(self._document.digest())
            self._document = hashlib.sha256()

    def hexdigest(self) -> str:
        """Returns the fingerprint of the documents that have ended."""
        return self._documents.hexdigest()


class EvenSample:
    """Every k-th piece of a stream of unknown length; k doubles whenever the kept pieces take more than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.pieces: list[bytes] = []
        self._limit_bytes, self._size_bytes = limit_bytes, 0
        self._every, self._seen = 1, 0

    def add(self, data: bytes) -> None:
        """Offers the next piece."""
        if self._seen % self._every == 0:
            self.pieces.append(data)
            self._size_bytes += sys.getsizeof(data)  # a piece of a few bytes takes several times as much
        self._seen += 1
        while self._size_bytes > self._limit_bytes and len(self.pieces) > 1:
            self.pieces = self.pieces[::2]
            self._size_bytes = sum(map(sys.getsizeof, self.pieces))
            self._every *= 2


def scan_text(pieces: Iterable[Piece], *, alphabet: bool, sample: bool) -> Scan:
    """Returns the facts of the text, read once in bounded memory.

    Args:
        pieces: The documents.
        alphabet: Whether to collect the characters.
        sample: Whether to keep a sample for training a tokenizer.
    """
    fingerprint, kept, characters = Fingerprint(), EvenSample(SAMPLE_BYTES), 0
    documents, found = 0, set[str]()
    for piece in pieces:
        data = raw_bytes(piece.text)
        fingerprint.add(data, ends_document=piece.ends_document, role=piece.role)
        characters += len(piece.text)
        documents += piece.ends_document
        if alphabet:
            found.update(piece.text)
        if sample:
            kept.add(data)
    return Scan(
        documents=documents,
        characters=characters,
        fingerprint=fingerprint.hexdigest(),
        alphabet=tuple(sorted(found)),
        sample=tuple(kept.pieces),
    )
