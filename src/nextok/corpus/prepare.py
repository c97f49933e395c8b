"""`prepare`: from files to token shards, in two passes and bounded memory.

The first pass counts, takes the fingerprint and collects what a tokenizer is made from; the second encodes. Nothing is
left behind unless all of it is whole. Reading is in `documents.py`, the passes are in `scan.py` and `encoding.py`, the
layout of the result is in `store.py`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from nextok.config import to_mapping
from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.documents import Piece, read_pieces
from nextok.corpus.encoding import encode_splits
from nextok.corpus.progress import OnProgress, Stage, watched
from nextok.corpus.scan import Scan, scan_text
from nextok.corpus.shards import id_dtype
from nextok.corpus.sources import SourceList, find_files
from nextok.corpus.store import (
    MANIFEST_NAME,
    SCHEMA,
    CorpusManifest,
    PreparedCorpus,
    PrepareReport,
    SplitRecord,
    check_replaceable,
    open_corpus,
)
from nextok.errors import CorpusError
from nextok.files import folder_atomically, write_json
from nextok.tokenizer import TOKENIZER_NAME, TextRules, Tokenizer, TokenizerChoice, build_tokenizer, parse_choice


def prepare(
    sources: Sequence[str],
    *,
    tokenizer: str | Tokenizer,
    out: Path,
    config: CorpusConfig,
    cache: Path,
    on_progress: OnProgress | None = None,
) -> PreparedCorpus:
    """Returns the corpus made from the sources, written to `out`. Memory does not grow with the size of a text file.

    The text is split by position: its first `int(characters * (1 - val_fraction))` characters are for training. Between
    documents stands the tokenizer's end-of-text id, if it has one. Of pairs (`pairs.py`) only completions, and the ends
    of text after them, are learned and scored; the split cuts none.

    A process that is killed leaves `.NAME.*.partial` beside `out`. A later call lets it lie, because another process
    may be writing it; delete it when none is.

    Args:
        sources: Files, folders, globs, named corpora, in order.
        tokenizer: `char`, `byte`, `bpe:4096`, `gpt2`, the path of a tokenizer, or a tokenizer itself.
        out: Folder to write; an older prepared corpus there is replaced, anything else is refused.
        config: How to read and split.
        cache: Folder for downloads of named corpora and of GPT-2's vocabulary.
        on_progress: Called about ten times a second, and at the end of each stage.

    Raises:
        CorpusError: if there is no text, it cannot be read, or is too short to split.
        TokenizerError: if the tokenizer cannot be made, or does not have a character (`unknown = "error"`).
        DownloadError: if a named corpus or GPT-2's vocabulary cannot be fetched.
        DiskError: if the result cannot be written.
    """
    check_replaceable(out)
    given = tokenizer if isinstance(tokenizer, Tokenizer) else None
    choice = TokenizerChoice(kind="path") if isinstance(tokenizer, Tokenizer) else parse_choice(tokenizer)
    found = find_files(sources, cache)
    fixed = given or _fixed_tokenizer(choice, config, cache)
    config = _effective(config, choice, fixed)
    reader = _Reader(found, config, on_progress)
    scan = scan_text(reader.pieces("scan"), alphabet=choice.kind == "char", sample=choice.kind == "bpe")
    train_characters = _split_position(scan, config, found)
    made = fixed or _made_tokenizer(choice, scan, reader)
    with folder_atomically(out) as folder:
        splits = encode_splits(
            reader.pieces("encode"), made, folder, scan=scan, train_characters=train_characters, config=config
        )
        manifest = CorpusManifest(
            schema=SCHEMA,
            dtype=id_dtype(made.vocab_size).name,
            vocab_size=made.vocab_size,
            tokenizer="given" if isinstance(tokenizer, Tokenizer) else tokenizer,
            tokenizer_fingerprint=made.fingerprint,
            end_of_text=made.end_of_text,
            corpus_fingerprint=scan.fingerprint,
            sources=tuple(sources),
            config=config,
            train=splits[0],
            validation=splits[1],
            report=_report(reader, splits),
        )
        made.save(folder / TOKENIZER_NAME)
        write_json(folder / MANIFEST_NAME, to_mapping(manifest))
    return open_corpus(out)


class _Reader:
    """Reads all files once a stage, with fresh counts, and tells how far it is."""

    def __init__(self, found: SourceList, config: CorpusConfig, on_progress: OnProgress | None) -> None:
        self.found, self.config, self.on_progress = found, config, on_progress
        self.rules = TextRules(newlines=config.newlines, normalization=config.normalization)
        self.counts, self._size_bytes = ReadCounts(), found.size_bytes

    def pieces(self, stage: Stage) -> Iterator[Piece]:
        self.counts = counts = ReadCounts()
        pieces = read_pieces(self.found.files, self.config, self.rules, counts)
        return watched(pieces, stage, lambda _: counts.disk_bytes, self._size_bytes, self.on_progress)

    def sample(self, scan: Scan) -> Callable[[], Iterable[str]]:
        total = sum(map(len, scan.sample))
        return lambda: watched(scan.sample_texts(), "tokenizer", _Sum(), total, self.on_progress)


class _Sum:
    """Counts the UTF-8 bytes of the texts it has been called with."""

    def __init__(self) -> None:
        self._size_bytes = 0

    def __call__(self, text: str) -> int:
        self._size_bytes += len(text.encode("utf-8"))
        return self._size_bytes


def _fixed_tokenizer(choice: TokenizerChoice, config: CorpusConfig, cache: Path) -> Tokenizer | None:
    """Returns the tokenizer if it does not depend on the text, so that a missing one is told before reading."""
    if choice.kind in ("char", "bpe"):
        return None
    rules = TextRules(newlines=config.newlines, normalization=config.normalization)
    return build_tokenizer(choice, tuple, end_of_text=True, rules=rules, cache=cache)


def _made_tokenizer(choice: TokenizerChoice, scan: Scan, reader: _Reader) -> Tokenizer:
    pieces = reader.sample(scan) if choice.kind == "bpe" else lambda: scan.alphabet
    return build_tokenizer(choice, pieces, end_of_text=scan.documents > 1, rules=reader.rules)


def _effective(config: CorpusConfig, choice: TokenizerChoice, fixed: Tokenizer | None) -> CorpusConfig:
    """Returns the options with the rules saved with the tokenizer: prompts go through them, so its corpus must too."""
    if config.bad_bytes == "keep" and (choice.kind == "char" or (fixed and fixed.kind not in ("byte", "bpe"))):
        raise CorpusError("bad_bytes = 'keep' needs a tokenizer that knows bytes.", "Use byte, bpe:SIZE or gpt2.")
    if fixed is None:
        return config
    return dataclasses.replace(config, newlines=fixed.rules.newlines, normalization=fixed.rules.normalization)


def _split_position(scan: Scan, config: CorpusConfig, found: SourceList) -> int:
    if not scan.characters:
        names = ", ".join(str(file.path) for file in found.files[:3]) + (", ..." if len(found.files) > 3 else "")
        raise CorpusError(f"There is no text in {names}: nothing but empty documents.", "Name files that hold text.")
    position = int(scan.characters * (1 - config.val_fraction))
    if position == 0 or (config.val_fraction > 0 and position == scan.characters):
        part = "training" if position == 0 else "validation"
        raise CorpusError(
            f"{scan.characters} characters leave none for {part} with val_fraction = {config.val_fraction}.",
            "Give more text, or set val_fraction to 0 to train on all of it.",
        )
    return position


def _report(reader: _Reader, splits: Sequence[SplitRecord | None]) -> PrepareReport:
    present = [split for split in splits if split is not None]
    size_bytes, tokens = sum(split.bytes for split in present), sum(split.tokens for split in present)
    return PrepareReport(
        counts=reader.counts,
        skipped=reader.found.skipped,
        characters=sum(split.characters for split in present),
        bytes=size_bytes,
        tokens=tokens,
        bytes_per_token=size_bytes / tokens,
    )
