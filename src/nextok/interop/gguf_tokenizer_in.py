"""The tokenizer inside a GGUF file as a `Tokenizer` that gives the same ids as llama.cpp.

Three of the kinds that files name: `llama` (SentencePiece with scores and a fallback to bytes), `gpt2` (byte-level BPE
with merges), and `rwkv` (the longest token that fits) where every token is one character or one byte.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from nextok.errors import CheckpointError, TokenizerError
from nextok.interop.gguf_file import GgufFile
from nextok.interop.gguf_splits import BYTES, SPLITS
from nextok.interop.typed_json import TypedJson
from nextok.tokenizer import Tokenizer, byte_symbols, check_fits

KEYS = "tokenizer.ggml."
UNSPELLABLE = b"\xff"
"""Before a control token in files of the kind `rwkv`: no text has that byte, so no text spells the token."""

NORMAL, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5
_WORD_MARK = "▁"
_LONGEST_TOKEN = 1024
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}

_Parts = dict[str, Any]


def read_gguf_tokenizer(file: GgufFile, n_rows: int) -> tuple[Tokenizer | None, str]:
    """Returns the tokenizer of the file; or None with the reason why there is none that gives the right ids.

    Args:
        file: The file.
        n_rows: Rows of the embedding.

    Raises:
        CheckpointError: if what the file says of its tokenizer is broken.
    """
    fields = TypedJson(file.metadata, file.path)
    kind = fields.text(f"{KEYS}model", "none")
    if kind in ("none", "no_vocab"):
        return None, f"{file.path} has no tokenizer."
    if kind not in _READERS:
        known = ", ".join(_READERS)
        return None, f"{file.path} has a tokenizer of the kind {kind!r}, which nextok does not have; it has {known}."
    vocabulary = _Vocabulary(fields)
    parts = _READERS[kind](vocabulary)
    if isinstance(parts, str):
        return None, parts
    content = _content(vocabulary, parts)
    try:
        tokenizer = Tokenizer.of(content, file.path, end_of_text=vocabulary.id_of("eos", kind))
        check_fits(tokenizer, n_rows)
    except TokenizerError as error:
        raise CheckpointError(error.message, error.hint) from error
    if _added_ids(tokenizer.content()) != _added_ids(content):
        raise vocabulary.broken("its control tokens do not have the ids after all others")
    return tokenizer, ""


class _Vocabulary:
    """The tokens of a file by what they are, with the ids that have a part to play."""

    def __init__(self, fields: TypedJson) -> None:
        self.fields, self.path = fields, fields.path
        self.tokens = self.texts("tokens")
        kinds = fields.values.get(f"{KEYS}token_type", np.full(len(self.tokens), NORMAL))
        if not isinstance(kinds, np.ndarray) or len(kinds) != len(self.tokens):
            raise self.broken("tokens and their types are not equally many")
        self.kinds: list[int] = kinds.tolist()
        if len(set(self.tokens)) < len(self.tokens):
            raise self.broken("two of its tokens have the same text")
        if any(len(token) > _LONGEST_TOKEN for token in self.tokens):
            raise self.broken(f"a token has more than {_LONGEST_TOKEN} characters")

    def texts(self, key: str) -> list[str]:
        """Returns a list of texts."""
        value = self.fields.values.get(KEYS + key)
        if not isinstance(value, list):
            raise self.broken(f"it has no list {KEYS}{key}")
        return value

    def ids(self, *kinds: int) -> dict[str, int]:
        """Returns the ids of the tokens of these types, by text."""
        return {token: i for i, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True)) if kind in kinds}

    @cached_property
    def used(self) -> dict[str, int]:
        """The id of each token but those that only fill the table."""
        return {token: i for i, token in enumerate(self.tokens) if self.kinds[i] != UNUSED}

    def id_of(self, role: str, kind: str) -> int | None:
        """Returns the id of a role such as `eos`; ids beyond the table, such as 4294967295, mean that there is none."""
        defaults = {"bos": 1, "eos": 2, "unknown": 0} if kind == "llama" else {}
        i = self.fields.whole(f"{KEYS}{role}_token_id", defaults.get(role, len(self.tokens)))
        return i if 0 <= i < len(self.tokens) else None

    def before_texts(self, kind: str, *, default: bool) -> str | None:
        """Returns the token that every prompt begins with, or None."""
        start = self.id_of("bos", kind)
        wanted = self.fields.switch(f"{KEYS}add_bos_token", default=default)
        return self.tokens[start] if wanted and start is not None else None

    def broken(self, what: str) -> CheckpointError:
        return CheckpointError(f"The tokenizer in {self.path} is broken: {what}.", "Download or convert it again.")


def _sentencepiece(vocabulary: _Vocabulary) -> _Parts:
    scores = vocabulary.fields.values.get(f"{KEYS}scores")
    if not isinstance(scores, np.ndarray) or len(scores) != len(vocabulary.tokens):
        raise vocabulary.broken("tokens and their scores are not equally many")
    unknown = vocabulary.id_of("unknown", "llama")
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": _WORD_MARK}
    unmark = {"type": "Replace", "pattern": {"String": _WORD_MARK}, "content": " "}
    prefixed = vocabulary.fields.switch(f"{KEYS}add_space_prefix", default=True)
    first = [{"type": "Prepend", "prepend": _WORD_MARK}] if prefixed else []
    last = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*first, mark]},
        "decoder": {"type": "Sequence", "decoders": [unmark, {"type": "ByteFallback"}, {"type": "Fuse"}, *last]},
        "start": vocabulary.before_texts("llama", default=True),
        "model": {
            "vocab": vocabulary.used,
            "merges": _merges_by_score(vocabulary, scores.tolist()),
            "unk_token": None if unknown is None else vocabulary.tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def _merges_by_score(vocabulary: _Vocabulary, scores: list[float]) -> list[tuple[str, str]]:
    """Returns the merges that join what SentencePiece would: any two tokens that make one, the best score first."""
    joinable = vocabulary.ids(NORMAL, USER)
    merges = [
        (-scores[i], joinable[token[:cut]], joinable[token[cut:]])
        for token, i in joinable.items()
        for cut in range(1, len(token))
        if token[:cut] in joinable and token[cut:] in joinable
    ]
    return [(vocabulary.tokens[left], vocabulary.tokens[right]) for _, left, right in sorted(merges)]


def _byte_level(vocabulary: _Vocabulary) -> _Parts | str:
    name = vocabulary.fields.text(f"{KEYS}pre", "default")
    split = SPLITS.get(name)
    if split is None:
        known = ", ".join(SPLITS)
        return (
            f"{vocabulary.path} cuts text into words by the rule {name!r}, which nextok does not have; with another "
            f"one the ids would be wrong. It has {known}."
        )
    merges = [_halves(merge) for merge in vocabulary.texts("merges")]
    return {
        "normalizer": split.normalizer,
        "pre_tokenizer": split.pre_tokenizer,
        "decoder": BYTES,
        "start": vocabulary.before_texts("gpt2", default=split.starts_prompts),
        "model": {"vocab": vocabulary.used, "merges": merges, "ignore_merges": split.ignore_merges},
    }


def _halves(merge: str) -> tuple[str, str]:
    cut = merge.find(" ", 1)
    return merge[: max(cut, 0)], merge[cut + 1 :]


def _unmerged(vocabulary: _Vocabulary) -> _Parts | str:
    plain = {_unescaped(token): i for token, i in vocabulary.ids(NORMAL).items()}
    control = {i: _unescaped(token).removeprefix(UNSPELLABLE) for token, i in vocabulary.ids(CONTROL, USER).items()}
    if len(plain) == len(byte_symbols()) and all(len(token) == 1 for token in plain):
        table = {byte_symbols()[token[0]]: i for token, i in plain.items()}
        cut, joined = BYTES, BYTES
    else:
        table = {token.decode("utf-8", "replace"): i for token, i in plain.items()}
        cut, joined = None, {"type": "Fuse"}
        if any(len(token) != 1 for token in table) or len(table) < len(plain):
            return f"{vocabulary.path} has a tokenizer of the kind rwkv whose tokens are neither characters nor bytes."
    return {
        "pre_tokenizer": cut,
        "decoder": joined,
        "start": None,
        "names": {i: name.decode("utf-8", "replace") for i, name in control.items()},
        "model": {"vocab": table, "merges": []},
    }


def _unescaped(token: str) -> bytes:
    """Returns the bytes of a token of `rwkv`, which spells bytes that are not printable as in C."""
    return _ESCAPE.sub(
        lambda found: bytes.fromhex(found[1][1:].decode()) if len(found[1]) == 3 else _ESCAPED.get(found[1], found[1]),
        token.encode("utf-8", "replace"),
    )


_READERS: Mapping[str, Callable[[_Vocabulary], _Parts | str]] = {
    "llama": _sentencepiece,
    "gpt2": _byte_level,
    "rwkv": _unmerged,
}


def _content(vocabulary: _Vocabulary, parts: _Parts) -> dict[str, Any]:
    """Returns the parts as the content of a tokenizer.json."""
    added = [
        {
            "id": i,
            "content": parts.get("names", {}).get(i, token),
            "special": vocabulary.kinds[i] != USER,
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
        }
        for token, i in vocabulary.ids(UNKNOWN, CONTROL, USER).items()
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": parts.get("normalizer"),
        "pre_tokenizer": parts.get("pre_tokenizer"),
        "post_processor": _begin_with(parts["start"], vocabulary),
        "decoder": parts["decoder"],
        "model": {"type": "BPE", **parts["model"]},
    }


def _added_ids(content: Mapping[str, Any]) -> dict[str, int]:
    return {token["content"]: token["id"] for token in content["added_tokens"]}


def _begin_with(token: str | None, vocabulary: _Vocabulary) -> dict[str, Any] | None:
    if token is None:
        return None
    start = {"SpecialToken": {"id": token, "type_id": 0}}
    text, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [start, text],
        "pair": [start, text, start, second],
        "special_tokens": {token: {"id": token, "ids": [vocabulary.used[token]], "tokens": [token]}},
    }
