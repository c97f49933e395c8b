"""The text of all files as one stream of pieces: counted, under the text rules, cut where no tokenizer would notice."""

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.decoding import around_kept_bytes, count_kept_bytes
from nextok.corpus.formats import documents_of
from nextok.corpus.pairs import Pair, Role
from nextok.corpus.sources import SourceFile
from nextok.tokenizer import TextRules

PIECE_CHARACTERS = 1 << 20
"""Most characters in a piece."""

_SEARCH_CHARACTERS = 1 << 16
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x1200)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A stretch of one document, at most 1 MiB characters long and never empty."""

    document: int
    """Index of the document among those that hold text."""
    text: str
    """Text under the rules; bad bytes that were kept are lone surrogates."""
    ends_document: bool
    """True for the last piece of the document."""
    source: str
    """File it came from, for messages."""
    role: Role = "text"
    """Part of the document that it belongs to."""


def read_pieces(
    files: Sequence[SourceFile], config: CorpusConfig, rules: TextRules, counts: ReadCounts
) -> Iterator[Piece]:
    """Yields all documents in order, in pieces whose borders depend on the text alone. Empty documents are counted.

    Raises:
        CorpusError: if a file cannot be read; the message names it and the place.
    """
    keeps = config.bad_bytes == "keep"
    for file in files:
        for document in documents_of(file, config, counts):
            before = counts.documents
            parts = ((role, _counted(chunks, counts, keeps_bytes=keeps)) for role, chunks in _parts(document))
            texts = (
                (role, text)
                for role, chunks in parts
                for text in cut_pieces(under_rules(chunks, rules, keeps_bytes=keeps))
            )
            yield from _as_pieces(texts, str(file.path), counts)
            counts.empty_documents += counts.documents == before
            counts.pairs += isinstance(document, Pair)
        counts.files += 1


def under_rules(chunks: Iterable[str], rules: TextRules, *, keeps_bytes: bool = False) -> Iterator[str]:
    """Yields the chunks under the rules, as if they had been applied to the whole text at once.

    Args:
        chunks: Text that is not cut between CR and LF.
        rules: What to apply.
        keeps_bytes: Whether lone surrogates stand for bad bytes and must pass unchanged.
    """
    apply = functools.partial(around_kept_bytes, change=rules.apply) if keeps_bytes else rules.apply
    if rules.normalization == "none":
        yield from map(apply, chunks)
        return
    held = ""
    for chunk in chunks:
        held += chunk
        end = _segment_start(held, len(held) - 1)
        if end < 0:  # no character begins anew: wait for one, but not for ever
            end = len(held) if len(held) > _SEARCH_CHARACTERS else 0
        yield apply(held[:end])
        held = held[end:]
    yield apply(held)


def cut_pieces(texts: Iterable[str]) -> Iterator[str]:
    """Yields the text in pieces of at most 1 MiB characters.

    A cut is before a single space between two words, where the pre-tokenizers of byte-level BPE cut as well; in text
    without one, before a character that begins anew, never inside CR LF or a base letter with its marks.
    """
    pending = ""
    for text in texts:
        pending += text
        start = 0
        while len(pending) - start > PIECE_CHARACTERS:
            end = _cut(pending, start, start + PIECE_CHARACTERS)
            yield pending[start:end]
            start = end
        pending = pending[start:]
    if pending:
        yield pending


def _parts(document: Iterable[str] | Pair) -> Iterator[tuple[Role, Iterable[str]]]:
    """Yields the parts of a document; rules apply to each by itself, since each is encoded by itself."""
    if isinstance(document, Pair):
        yield from ((role, [text]) for role, text in document.parts())
    else:
        yield "text", document


def _as_pieces(texts: Iterator[tuple[Role, str]], source: str, counts: ReadCounts) -> Iterator[Piece]:
    current = next(texts, None)
    while current is not None:
        role, text = current
        current = next(texts, None)
        ends = current is None
        yield Piece(document=counts.documents, text=text, ends_document=ends, source=source, role=role)
        counts.documents += ends


def _counted(chunks: Iterable[str], counts: ReadCounts, *, keeps_bytes: bool) -> Iterator[str]:
    for chunk in chunks:
        crlf = chunk.count("\r\n")
        counts.crlf_newlines += crlf
        counts.lf_newlines += chunk.count("\n") - crlf
        counts.cr_newlines += chunk.count("\r") - crlf
        counts.nul_characters += chunk.count("\0")
        counts.replacement_characters += chunk.count("\ufffd")
        if keeps_bytes:
            counts.kept_bytes += count_kept_bytes(chunk)
        yield chunk


def _cut(text: str, start: int, end: int) -> int:
    place, lowest = end, max(start + 1, end - _SEARCH_CHARACTERS)
    while (place := text.rfind(" ", lowest, place)) != -1:
        if not text[place - 1].isspace() and not text[place + 1].isspace():
            return place
    place = _segment_start(text, end)
    return place if place > start else end


def _segment_start(text: str, end: int) -> int:
    """Returns the last place from 1 to `end` where normalization could begin anew, or -1 where none is near."""
    for place in range(end, max(1, end - _SEARCH_CHARACTERS) - 1, -1):
        if text[place - 1 : place + 1] != "\r\n" and _begins_anew(text[place]):
            return place
    return -1


def _begins_anew(character: str) -> bool:
    if character < "\u0300":
        return True
    first = unicodedata.normalize("NFKD", character)[0]  # a halfwidth voiced mark decomposes into a combining one
    joins = unicodedata.category(first).startswith("M") or ord(first) in _HANGUL_VOWELS_AND_TAILS
    return not joins and unicodedata.combining(first) == 0
