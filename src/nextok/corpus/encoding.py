"""The second pass: pieces of text to token shards, split by position, with end of text between documents.

Prompt and completion of a pair are encoded one by one and joined, as a prompt is encoded alone when a model is asked.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from nextok.corpus.config import CorpusConfig
from nextok.corpus.decoding import raw_bytes
from nextok.corpus.documents import PIECE_CHARACTERS, Piece
from nextok.corpus.scan import Fingerprint, Scan
from nextok.corpus.shards import ArrayWriter, Ids, ShardWriter
from nextok.corpus.store import SplitRecord
from nextok.corpus.targets import TargetWriter
from nextok.errors import CorpusError, UnknownCharacterError
from nextok.tokenizer import Tokenizer

_BATCH_PARTS = 1 << 14  # bounds the memory that documents of a few characters take


def encode_splits(
    pieces: Iterable[Piece],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    scan: Scan,
    train_characters: int,
    config: CorpusConfig,
) -> tuple[SplitRecord, SplitRecord | None]:
    """Writes the shards of both splits into the folder and returns their records; None for a split without text.

    Args:
        pieces: The same text that was scanned.
        tokenizer: What makes the ids.
        folder: Existing folder.
        scan: The facts of the text.
        train_characters: Position of the split, in characters; a pair that it falls into is not cut.
        config: What to do with unknown characters and bad bytes.

    Raises:
        CorpusError: if the text is not the one that was scanned, or a split has no token.
        UnknownCharacterError: if the tokenizer does not have a character, naming the file.
    """
    separator = tokenizer.end_of_text if scan.documents > 1 else None
    fingerprint = Fingerprint()
    with ExitStack() as stack:
        train = stack.enter_context(_SplitWriter(folder, "train", tokenizer))
        splits = [train]
        if train_characters < scan.characters:
            splits.append(stack.enter_context(_SplitWriter(folder, "validation", tokenizer)))
        for batch in _batches(_split_at(pieces, train_characters)):
            for part, ids in zip(batch, _encode(batch, tokenizer, config), strict=True):
                data = raw_bytes(part.text)
                fingerprint.add(data, ends_document=part.ends_document, role=part.role)
                split = splits[min(part.split, len(splits) - 1)]
                split.add(part, ids, _size_bytes(ids, data, tokenizer, config))
                if part.ends_document and separator is not None and part.document < scan.documents - 1:
                    split.add_id(separator)
            for split in splits:
                split.write()
    if fingerprint.hexdigest() != scan.fingerprint:
        raise CorpusError("The files changed while they were being read.", "Run it again when nothing writes to them.")
    records = [split.record() for split in splits]
    return records[0], records[1] if len(records) > 1 else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Part(Piece):
    """A piece that lies in one split whole."""

    split: int
    """0 for training, 1 for validation."""


class _SplitWriter:
    """Collects the ids of a batch and writes them together: documents of a few ids would cost a write each."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer) -> None:
        self._name, self._prompt_start = name, tokenizer.prompt_start
        self._shards = ShardWriter(folder, name, tokenizer.vocab_size)
        self._documents = ArrayWriter(folder / f"{name}-documents.npy", np.dtype("<i8"))
        self._targets = TargetWriter(folder / f"{name}-targets.npy")
        self._ids: list[Ids] = []
        self._starts: list[int] = []
        self._tokens = self._characters = self._size_bytes = 0
        self._document = -1

    def __enter__(self) -> "_SplitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for writer in (self._shards, self._documents, self._targets):
                stack.callback(writer.close)

    def add(self, part: _Part, ids_T: Ids, size_bytes: int) -> None:
        if part.document != self._document:
            self._document = part.document
            self._starts.append(self._tokens)
            if part.role != "text" and self._prompt_start is not None:
                self.add_id(self._prompt_start, counts=False)
        self._add(ids_T, size_bytes, counts=part.role != "prompt")
        self._characters += len(part.text)
        self._size_bytes += size_bytes

    def add_id(self, token_id: int, *, counts: bool = True) -> None:
        self._add(np.array([token_id], dtype=np.int64), 0, counts=counts)

    def _add(self, ids_T: Ids, size_bytes: int, *, counts: bool) -> None:
        self._ids.append(ids_T)
        self._tokens += len(ids_T)
        self._targets.add(len(ids_T), size_bytes, counts=counts)

    def write(self) -> None:
        if self._ids:
            self._shards.append(np.concatenate(self._ids))
            self._documents.append(np.array(self._starts, dtype=np.int64))
            self._ids, self._starts = [], []

    def record(self) -> SplitRecord:
        targets = self._targets.record()
        learned_bytes = self._size_bytes if targets is None else targets.bytes
        if not (self._tokens and learned_bytes):  # end of text alone would divide bits by no bytes
            if not self._characters:
                raise CorpusError(f"A single pair leaves none for the {self._name} split.", "Set val_fraction to 0.")
            raise CorpusError(
                f"The {self._name} split has no text left: its {self._characters} characters were dropped as unknown.",
                "Use a tokenizer that has them, or unknown = replace (--unknown replace).",
            )
        return SplitRecord(
            tokens=self._tokens,
            bytes=self._size_bytes,
            characters=self._characters,
            documents=self._documents.length,
            largest_id=self._shards.largest_id,
            shards=self._shards.shards,
            targets=targets,
        )


def _split_at(pieces: Iterable[Piece], position: int) -> Iterator[_Part]:
    """Yields the pieces, the text that the position falls into as two, and each pair whole in one split.

    The pair that the position falls into is for validation, unless it is the first of all.
    """
    done = 0
    for stretch in _stretches(pieces):
        end = done + sum(len(piece.text) for piece in stretch)
        if stretch[0].role == "text" and done < position < end:
            (piece,) = stretch
            yield _part(piece, piece.text[: position - done], split=0, ends_document=False)
            yield _part(piece, piece.text[position - done :], split=1, ends_document=piece.ends_document)
        else:
            split = int(end > position and done > 0)
            yield from (_part(piece, piece.text, split=split, ends_document=piece.ends_document) for piece in stretch)
        done = end


def _stretches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yields the pieces of texts one by one, those of a pair, whose length is bounded, together."""
    pair: list[Piece] = []
    for piece in pieces:
        if piece.role == "text":
            yield [piece]
            continue
        pair.append(piece)
        if piece.ends_document:
            yield pair
            pair = []


def _part(piece: Piece, text: str, *, split: int, ends_document: bool) -> _Part:
    return _Part(
        document=piece.document,
        text=text,
        ends_document=ends_document,
        source=piece.source,
        role=piece.role,
        split=split,
    )


def _batches(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Yields parts together until they make up a piece, so that small documents too keep all cores of a BPE busy."""
    batch: list[_Part] = []
    characters = 0
    for part in parts:
        batch.append(part)
        characters += len(part.text)
        if characters >= PIECE_CHARACTERS or len(batch) == _BATCH_PARTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _encode(batch: list[_Part], tokenizer: Tokenizer, config: CorpusConfig) -> list[Ids]:
    if config.bad_bytes == "keep":
        return [tokenizer.encode_bytes(raw_bytes(part.text)) for part in batch]
    try:
        return tokenizer.encode_many([part.text for part in batch], unknown=config.unknown)
    except UnknownCharacterError as error:
        raise _located(batch, tokenizer, config, error) from error


def _size_bytes(ids_T: Ids, data: bytes, tokenizer: Tokenizer, config: CorpusConfig) -> int:
    """Returns the bytes that the ids stand for, which are fewer or others where unknown characters were let pass."""
    lossy = tokenizer.kind == "char" and config.unknown != "error"
    return len(tokenizer.decode_bytes(ids_T)) if lossy else len(data)


def _located(
    batch: list[_Part], tokenizer: Tokenizer, config: CorpusConfig, error: UnknownCharacterError
) -> UnknownCharacterError:
    for part in batch:
        try:
            tokenizer.encode(part.text, unknown=config.unknown)
        except UnknownCharacterError as found:
            return UnknownCharacterError(f"In {part.source}: {found.message}", found.hint)
    return error
