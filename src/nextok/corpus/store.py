"""The folder of a prepared corpus: what its manifest says, and opening it with every promise checked.

```
OUT/corpus.json                  the manifest
    tokenizer.json
    train-00000.npy ...          ids, in shards
    train-documents.npy          offset of the first token of each document, int64; 0 too where the split cut one
    train-targets.npy            borders between prompts and what is learned, int64; only where there are pairs
    validation-00000.npy ...  validation-documents.npy  validation-targets.npy
```
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nextok.config import from_mapping
from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.shards import ShardRecord, TokenSplit, check_array, id_dtype
from nextok.corpus.targets import TargetRecord, Targets
from nextok.errors import ConfigError, CorpusError
from nextok.files import disk_errors, read_json
from nextok.tokenizer import TOKENIZER_NAME, Tokenizer

SCHEMA = 1
MANIFEST_NAME = "corpus.json"

_OWN_NAMES = re.compile(
    rf"{re.escape(MANIFEST_NAME)}|{re.escape(TOKENIZER_NAME)}|(train|validation)-(\d{{5,}}|documents|targets)\.npy"
)
_PREPARE_AGAIN = "Prepare it again."


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitRecord:
    """One split, as the manifest tells it."""

    tokens: int
    """Ids, those between documents included."""
    bytes: int
    """UTF-8 bytes that the ids stand for: what was dropped as unknown is not among them."""
    characters: int
    """Characters of its text, dropped ones included."""
    documents: int
    """Documents in it; one that the split cuts counts in both."""
    largest_id: int
    """Largest id that was written."""
    shards: tuple[ShardRecord, ...]
    """Its files in order."""
    targets: TargetRecord | None = None
    """Those of its tokens that are learned and scored; None where all are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareReport:
    """What the preparation met and made."""

    counts: ReadCounts
    """What reading the files met."""
    skipped: dict
    """Number of files left out, by reason."""
    characters: int
    """Characters of both splits, dropped ones included."""
    bytes: int
    """UTF-8 bytes that the ids of both splits stand for."""
    tokens: int
    """Ids of both splits."""
    bytes_per_token: float
    """Bytes divided by tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusManifest:
    """The content of `corpus.json`. The same text under the same options gives the same manifest."""

    schema: int
    """Version of this layout."""
    dtype: str
    """Type of the stored ids: uint16 or uint32."""
    vocab_size: int
    """Number of ids of the tokenizer."""
    tokenizer: str
    """The tokenizer that was asked for, such as char or bpe:4096; `given` where it was handed in."""
    tokenizer_fingerprint: str
    """Fingerprint of tokenizer.json's content."""
    corpus_fingerprint: str
    """SHA-256 over the documents under the text rules."""
    sources: tuple[str, ...]
    """What the user named."""
    config: CorpusConfig
    """Options that were in force; a tokenizer that brings its own text rules overrides those two."""
    train: SplitRecord
    """The first part of the text."""
    validation: SplitRecord | None
    """The last part, or None where none was kept."""
    report: PrepareReport
    """What the preparation met."""
    end_of_text: int | None = None
    """Id that ends texts: a model's own files may name another than tokenizer.json does by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCorpus:
    """Token ids ready to train on, with the tokenizer they belong to."""

    folder: Path
    """Where it lies."""
    manifest: CorpusManifest
    """What `corpus.json` says."""
    tokenizer: Tokenizer
    """The tokenizer of the ids."""
    train: TokenSplit
    """Tokens to learn from."""
    validation: TokenSplit | None
    """Tokens kept apart, or None."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the documents, in hexadecimal: tells whether two runs saw the same text."""
        return self.manifest.corpus_fingerprint


def open_corpus(folder: Path) -> PreparedCorpus:
    """Returns the prepared corpus of a folder; no token is read yet.

    Raises:
        CorpusError: if the folder is not a prepared corpus, or a file in it is missing, cut short or of another kind.
        TokenizerError: if its tokenizer cannot be read.
    """
    manifest = _read_manifest(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER_NAME)
    if manifest.end_of_text not in (None, tokenizer.end_of_text):
        tokenizer = Tokenizer.of(tokenizer.content(), folder / TOKENIZER_NAME, end_of_text=manifest.end_of_text)
    if (tokenizer.fingerprint, tokenizer.vocab_size) != (manifest.tokenizer_fingerprint, manifest.vocab_size):
        raise CorpusError(
            f"{folder / TOKENIZER_NAME} is not the tokenizer that {folder} was made with.", _PREPARE_AGAIN
        )
    if manifest.dtype != id_dtype(manifest.vocab_size).name:
        raise CorpusError(f"{folder} stores {manifest.vocab_size} ids as {manifest.dtype}.", _PREPARE_AGAIN)
    train = _open_split(folder, "train", manifest.train, manifest.vocab_size)
    assert train is not None, "the manifest has a training split"
    validation = _open_split(folder, "validation", manifest.validation, manifest.vocab_size)
    return PreparedCorpus(folder=folder, manifest=manifest, tokenizer=tokenizer, train=train, validation=validation)


def check_replaceable(folder: Path) -> None:
    """Checks that a corpus may be written to the folder: nothing is there, or only an older prepared corpus.

    Raises:
        CorpusError: if something else is there, which would be lost.
        DiskError: if the folder cannot be looked into.
    """
    if not folder.exists():
        return
    with disk_errors(folder):
        foreign = sorted(p.name for p in folder.iterdir() if not _is_own(p)) if folder.is_dir() else [folder.name]
    if foreign:
        message = f"{folder} holds {foreign[0]!r}, which is no part of a prepared corpus and would be lost."
        raise CorpusError(message, "Choose another folder for the output.")


def _is_own(path: Path) -> bool:
    return path.is_file() and _OWN_NAMES.fullmatch(path.name) is not None


def _read_manifest(folder: Path) -> CorpusManifest:
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise CorpusError(f"{folder} is not a prepared corpus: it has no {MANIFEST_NAME}.", "Run nextok prepare first.")
    content: Any = read_json(path)
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise CorpusError(f"{path} has schema {schema!r}; this version reads {SCHEMA}.", _PREPARE_AGAIN)
    try:
        return from_mapping(CorpusManifest, content, MANIFEST_NAME)
    except ConfigError as error:
        raise CorpusError(f"{path} is damaged: {error.message}", _PREPARE_AGAIN) from error


def _open_split(folder: Path, name: str, record: SplitRecord | None, vocab_size: int) -> TokenSplit | None:
    if record is None:
        return None
    outside = [shard.name for shard in record.shards if not _OWN_NAMES.fullmatch(shard.name)]
    if outside or record.largest_id >= vocab_size or record.tokens != sum(shard.tokens for shard in record.shards):
        raise CorpusError(f"The {name} split in {folder / MANIFEST_NAME} contradicts itself.", _PREPARE_AGAIN)
    check_array(folder / f"{name}-documents.npy", np.dtype("<i8"), record.documents)
    targets = None if record.targets is None else Targets(folder / f"{name}-targets.npy", record.targets)
    return TokenSplit(folder, name, record.shards, vocab_size=vocab_size, size_bytes=record.bytes, targets=targets)
