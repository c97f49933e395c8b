"""`Tokenizer`: text to ids and back, over one tokenizer of the `tokenizers` library, saved as one tokenizer.json.

Text from a user is never read for control tokens: `<|endoftext|>` in a document is ordinary characters, and the program
puts the id `end_of_text` between documents itself. Kinds `char`, `byte` and `bpe` give every text back exactly (as
`well_formed` and the rules leave it). How tokenizers are made is in `build.py`, `gpt2.py` and `choice.py`.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from nextok.errors import TokenizerError
from nextok.files import write_text
from nextok.tokenizer.byte_symbols import byte_symbols, symbols_to_bytes
from nextok.tokenizer.characters import CharacterTable, Unknown
from nextok.tokenizer.pieces import cut_text
from nextok.tokenizer.recognise import Kind, recognise, token_before_texts
from nextok.tokenizer.show import shown
from nextok.tokenizer.stream import ByteStream, TextStream, WindowStream
from nextok.tokenizer.text_rules import TextRules
from nextok.tokenizer.tokenizer_json import make_library_tokenizer, read_library_tokenizer

Ids = Sequence[int] | NDArray[np.integer[Any]]

END_OF_TEXT = "<|endoftext|>"

_FOREIGN_ENDS = ("<|end_of_text|>", "</s>", "<eos>")  # of the Llama and Gemma families
_PLACEHOLDER = "\ufffd"
_STRAY_BYTES = re.compile(
    "([\udc80-\udcff]+)"
)  # what the error handler surrogateescape makes of bytes that are not UTF-8
_BYTE_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>\Z")
_WORD_MARK = "▁"
_BATCH_CHARACTERS = 4_000_000
_STREAM_CONTEXT = 8  # ids before a stream that its first text may depend on: the bytes of a character, and some more


class UnknownIdWarning(UserWarning):
    """An id that no token has was decoded; U+FFFD stands in its place."""


class Tokenizer:
    """A vocabulary and the two ways through it.

    Args:
        library: The tokenizer of the `tokenizers` library to use; the caller must not change it afterwards.
        end_of_text: The id that separates documents, where a model's file says so; None finds it by its name.

    Attributes:
        kind: `char`, `byte`, `bpe` (byte-level BPE, GPT-2's among them) or `other` (any other tokenizer.json).
        rules: What happens to text before it is encoded.
        vocab_size: The largest id + 1, end of text included.
        end_of_text: The id that separates documents, or None.
        prompt_start: The id that every prompt of the model begins with (`<s>` of the Llama family), or None.
    """

    kind: Kind
    rules: TextRules
    vocab_size: int
    end_of_text: int | None
    prompt_start: int | None

    def __init__(self, library: tokenizers.Tokenizer, *, end_of_text: int | None = None) -> None:
        library.encode_special_tokens = True  # text never spells a control token
        library.no_truncation()
        library.no_padding()
        content = json.loads(library.to_str())
        traits = recognise(content)
        self._library = library
        self._cuttable = traits.cuttable
        self.kind, self.rules = traits.kind, traits.rules
        vocabulary = library.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        control = {added.content: i for i, added in library.get_added_tokens_decoder().items() if added.special}
        named = next((control[name] for name in (END_OF_TEXT, *_FOREIGN_ENDS) if name in control), None)
        self.end_of_text = named if end_of_text is None else end_of_text
        self.prompt_start = vocabulary.get(token_before_texts(content) or "")

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, vocab_size={self.vocab_size}, end_of_text={self.end_of_text})"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256, in hexadecimal, of what decides the ids; equal after save and load."""
        content = self.content()
        parts = {name: content[name] for name in ("normalizer", "pre_tokenizer", "model", "added_tokens", "decoder")}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()

    def encode(self, text: str, *, unknown: Unknown = "error") -> NDArray[np.int64]:
        """Returns the ids [T] of the text.

        Args:
            text: Any string, taken as plain text: no control token is read out of it.
            unknown: For kind `char`, what to do with a character outside the vocabulary: raise, `drop` it, or `replace`
                it by the first of U+FFFD, `?` and space that the vocabulary has.

        Raises:
            UnknownCharacterError: for a character outside a `char` vocabulary.
        """
        return self.encode_many([text], unknown=unknown)[0]

    def encode_prompt(self, text: str, *, unknown: Unknown = "error") -> NDArray[np.int64]:
        """Returns the ids [T] of a text that a model is to continue: as `encode`, after `prompt_start` if there is one.

        Raises:
            UnknownCharacterError: as `encode`.
        """
        ids_T = self.encode(text, unknown=unknown)
        return ids_T if self.prompt_start is None else np.concatenate([[self.prompt_start], ids_T])

    def encode_many(self, texts: Sequence[str], *, unknown: Unknown = "error") -> list[NDArray[np.int64]]:
        """Returns the ids of each text, as `encode` gives them; `bpe` and `other` use all cores.

        Raises:
            UnknownCharacterError: for a character outside a `char` vocabulary.
        """
        ready = [self.rules.apply(text) for text in texts]
        if self.kind == "byte":
            return [_byte_values(text.encode("utf-8")) for text in ready]
        if self.kind == "char":
            pairs = zip(ready, texts, strict=True)
            return [self._characters.encode(text, unknown=unknown, original=original) for text, original in pairs]
        return self._encode_by_library(ready)

    def encode_bytes(self, data: bytes) -> NDArray[np.int64]:
        """Returns the ids [T] of any bytes: valid UTF-8 as text, stray bytes as their byte tokens.

        `decode_bytes` gives the same bytes back, for kinds `byte` and `bpe` without rules that change text.

        Raises:
            TokenizerError: if the kind has no byte tokens and the data is not UTF-8.
        """
        if self.kind not in ("byte", "bpe"):
            return self.encode(_strict_text(data, self.kind))
        spans = _STRAY_BYTES.split(data.decode("utf-8", "surrogateescape"))  # text, stray, text, ..., text
        texts = self.encode_many(spans[0::2])
        strays = [self._byte_ids[_byte_values(span.encode("utf-8", "surrogateescape"))] for span in spans[1::2]]
        parts = [part for pair in zip(texts, strays, strict=False) for part in pair]
        return np.concatenate([*parts, texts[-1]])

    def decode(self, ids: Ids) -> str:
        """Returns the text of the ids; bytes that are not UTF-8 become U+FFFD, end of text its name.

        An id that no token has becomes U+FFFD too, with an `UnknownIdWarning`.
        """
        if self.kind == "other":
            return self._decode_by_library(self._known_ids(ids))
        return self._join_bytes(self._known_ids(ids)).decode("utf-8", "replace")

    def decode_bytes(self, ids: Ids) -> bytes:
        """Returns the bytes of the ids; for kind `other` the UTF-8 of its text.

        An id that no token has becomes the UTF-8 of U+FFFD, with an `UnknownIdWarning`.
        """
        if self.kind == "other":
            return self._decode_by_library(self._known_ids(ids)).encode("utf-8")
        return self._join_bytes(self._known_ids(ids))

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes of one id (for kind `other` as near as its tokens tell); warns as `decode_bytes` does."""
        return self._join_bytes(self._known_ids([token_id]))

    def token_text(self, token_id: int) -> str:
        """Returns one token for the eye: spaces, tabs and line feeds as marks, parts of characters in hexadecimal."""
        known = 0 <= token_id < self.vocab_size and self._has_token[token_id]
        return shown(self._bytes_of_token[token_id]) if known else f"<unknown id {token_id}>"

    def stream(self, after: Ids = ()) -> TextStream:
        """Returns a fresh stream that turns ids into text as they come.

        Args:
            after: The ids that stand before. Some tokenizers of kind `other` drop a space at the beginning of a text,
                so the text of the first id depends on whether there is one before it.
        """
        if self.kind != "other":
            return ByteStream(self.token_bytes)
        before = [i for i in np.asarray(after, dtype=np.int64).tolist() if i not in self._control_ids]
        return WindowStream(self.decode, before[-_STREAM_CONTEXT:])

    def with_rules(self, rules: TextRules) -> "Tokenizer":
        """Returns this tokenizer with other rules for text.

        Raises:
            TokenizerError: for kind `other`, whose file has its own.
        """
        if self.kind == "other":
            raise TokenizerError("Rules for text cannot be set on a tokenizer that brings its own normalizer.")
        library = tokenizers.Tokenizer.from_str(self._library.to_str())
        library.normalizer = rules.normalizer()
        return Tokenizer(library, end_of_text=self.end_of_text)

    def content(self) -> dict[str, Any]:
        """Returns the content of its tokenizer.json, as a copy of plain values."""
        return dict(json.loads(self._library.to_str()))

    def save(self, path: Path) -> None:
        """Writes the tokenizer.json atomically; `load` and transformers read it.

        Raises:
            DiskError: if the file cannot be written.
        """
        write_text(path, self._library.to_str(pretty=True) + "\n")

    @classmethod
    def load(cls, path: Path, *, end: str | None = None) -> "Tokenizer":
        """Returns the tokenizer of a tokenizer.json, or of the folder that holds one.

        Args:
            path: The file or folder.
            end: The token that ends texts, where something beside the file names it; one that it lacks is ignored.

        Raises:
            TokenizerError: if the file is missing, not strict JSON, or not a tokenizer that the library knows.
        """
        library = read_library_tokenizer(path)
        return cls(library, end_of_text=None if end is None else library.token_to_id(end))

    @classmethod
    def of(cls, content: Any, path: Path, *, end_of_text: int | None = None) -> "Tokenizer":
        """Returns the tokenizer of the parsed content of a tokenizer.json.

        Args:
            content: The content, unchecked.
            path: The file it comes from, for messages.
            end_of_text: As for the class.

        Raises:
            TokenizerError: if it is not a tokenizer that the library knows.
        """
        return cls(make_library_tokenizer(content, path), end_of_text=end_of_text)

    @cached_property
    def _characters(self) -> CharacterTable:
        return CharacterTable(self._library.get_vocab(with_added_tokens=False))

    @cached_property
    def _byte_ids(self) -> NDArray[np.int64]:
        vocabulary = self._library.get_vocab(with_added_tokens=False)
        return np.array([vocabulary[symbol] for symbol in byte_symbols()], dtype=np.int64)

    @cached_property
    def _bytes_of_token(self) -> list[bytes]:
        """The bytes of each id; one place more than ids, where all ids without a token are sent."""
        table = [_PLACEHOLDER.encode("utf-8")] * (self.vocab_size + 1)
        for token, token_id in self._library.get_vocab(with_added_tokens=False).items():
            table[token_id] = self._bytes_of(token)
        for token_id, added in self._library.get_added_tokens_decoder().items():
            table[token_id] = added.content.encode("utf-8")
        return table

    @cached_property
    def _control_ids(self) -> frozenset[int]:
        return frozenset(i for i, added in self._library.get_added_tokens_decoder().items() if added.special)

    @cached_property
    def _has_token(self) -> NDArray[np.bool_]:
        has_token = np.zeros(self.vocab_size, dtype=np.bool_)
        has_token[list(self._library.get_vocab(with_added_tokens=True).values())] = True
        return has_token

    def _bytes_of(self, token: str) -> bytes:
        if self.kind in ("byte", "bpe"):
            return symbols_to_bytes(token)
        if self.kind == "char":
            return token.encode("utf-8")
        single = _BYTE_FALLBACK.match(token)
        return bytes.fromhex(single[1]) if single else token.replace(_WORD_MARK, " ").encode("utf-8")

    def _known_ids(self, ids: Ids) -> NDArray[np.int64]:
        """Returns the ids [T] with `vocab_size` in place of every one that no token has."""
        given_T = np.asarray(ids, dtype=np.int64).reshape(-1)
        known_T = (given_T >= 0) & (given_T < self.vocab_size)
        known_T[known_T] = self._has_token[given_T[known_T]]
        if known_T.all():
            return given_T
        strange_T = given_T[~known_T]
        message = f"{len(strange_T)} of {len(given_T)} ids have no token, first {strange_T[0]}; U+FFFD stands for them."
        warnings.warn(message, UnknownIdWarning, stacklevel=3)  # the line that called decode
        return np.where(known_T, given_T, self.vocab_size)

    def _join_bytes(self, ids_T: NDArray[np.int64]) -> bytes:
        return b"".join(map(self._bytes_of_token.__getitem__, ids_T.tolist()))

    def _decode_by_library(self, ids_T: NDArray[np.int64]) -> str:
        spans = np.split(ids_T, np.flatnonzero(ids_T == self.vocab_size))
        texts = [
            self._library.decode(span[span < self.vocab_size].tolist(), skip_special_tokens=False) for span in spans
        ]
        return _PLACEHOLDER.join(texts)

    def _encode_by_library(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        parts: list[list[NDArray[np.int64]]] = [[np.empty(0, dtype=np.int64)] for _ in texts]
        for batch in _batches(self._pieces(texts)):
            encodings = self._library.encode_batch_fast([piece for _, piece in batch], add_special_tokens=False)
            for (owner, _), encoding in zip(batch, encodings, strict=True):
                parts[owner].append(np.array(encoding.ids, dtype=np.int64))
        return [np.concatenate(part) for part in parts]

    def _pieces(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        for owner, text in enumerate(texts):
            for piece in cut_text(text) if self._cuttable else (text,):
                yield owner, piece


def _batches(pieces: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yields the pieces in batches that bound what the library holds at a time."""
    batch: list[tuple[int, str]] = []
    characters = 0
    for owner, piece in pieces:
        batch.append((owner, piece))
        characters += len(piece)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _byte_values(data: bytes) -> NDArray[np.int64]:
    return np.frombuffer(data, dtype=np.uint8).astype(np.int64)


def _strict_text(data: bytes, kind: Kind) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"Byte {error.start} of the data, 0x{data[error.start]:02X}, is not UTF-8; kind {kind} has no byte tokens.",
            "Use a byte or bpe tokenizer, or give text.",
        ) from error
