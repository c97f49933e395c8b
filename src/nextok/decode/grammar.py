"""Regular expressions and JSON schemas as constraints, by the library `llguidance` (the extra `grammar`).

The library is given the bytes of every token and answers with masks, so a grammar works for characters, bytes and BPE
alike, across token borders. What it does not know is that a vocabulary may lack characters: `_Vocabulary` adds those
bytes as ids beyond V that are never drawn, and a regular expression is narrowed to what the vocabulary can spell.
Axes: V vocabulary.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool

from nextok.decode.constraint import Constraint
from nextok.decode.dead_ends import WithoutDeadEnds
from nextok.errors import ConfigError, MissingExtraError
from nextok.files import from_json

# At most one space where JSON allows any: a small model would write white space for ever.
_JSON_OPTIONS = {"whitespace_pattern": " ?"}
_SHOWN = 60


@runtime_checkable
class ByteSource(Protocol):
    """The part of a `Tokenizer` that a grammar needs."""

    @property
    def vocab_size(self) -> int:
        """The number of ids."""

    @property
    def end_of_text(self) -> int | None:
        """The id that ends a document, None where the vocabulary has none."""

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes of one id."""

    def encode_bytes(self, data: bytes) -> np.ndarray:
        """Returns the ids of the bytes."""


class GrammarConstraint:
    """The text so far under a grammar. Made by `grammar_constraint`; meets `Constraint`."""

    def __init__(self, matcher: Any, vocabulary: "_Vocabulary") -> None:
        self._matcher, self._vocabulary = matcher, vocabulary
        self._allowed_V: np.ndarray | None = None

    @property
    def can_end(self) -> bool:
        """Whether the text so far matches."""
        return bool(self._matcher.is_accepting())

    @property
    def is_done(self) -> bool:
        """Whether the text so far matches and nothing longer could."""
        return self.can_end and not self.allowed().any()

    def allowed(self) -> Bool[np.ndarray, " V"]:
        """Returns True for each id that the text may go on with.

        Raises:
            ConfigError: if the grammar is too complex to be followed.
        """
        if self._allowed_V is None:
            self._allowed_V = self._mask()
        return self._allowed_V

    def advance(self, id: int) -> None:
        """Takes one allowed id into the text."""
        taken = self._matcher.consume_token(id)
        assert taken, f"id {id} is not allowed here"
        self._allowed_V = None

    def n_possible(self, ids: Sequence[int]) -> int:
        """Returns how many of the ids, from the first, could follow one another here."""
        return int(self._matcher.validate_tokens(list(ids)))

    def copy(self) -> Self:
        """Returns the same state once more; what it costs is a microsecond."""
        return type(self)(self._matcher.deep_copy(), self._vocabulary)

    def _mask(self) -> np.ndarray:
        matcher = self._matcher
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        # That a narrowed expression has no text at all is an error to the library; here it is an empty mask.
        if matcher.is_error() and not matcher.get_error().startswith("NoExtension"):
            raise ConfigError(f"The grammar cannot be followed: {_reason(matcher.get_error())}", "Make it simpler.")
        allowed_V = bits[: self._vocabulary.size].astype(np.bool_)
        if self._vocabulary.end < allowed_V.size:
            allowed_V[self._vocabulary.end] = False
        return allowed_V


def grammar_constraint(tokenizer: object, *, regex: str = "", json_schema: str = "") -> Constraint:
    """Returns the constraint that the whole text matches a regular expression, or follows a JSON schema.

    A character vocabulary that lacks characters: a regular expression is narrowed to what it can spell, exactly; for a
    schema ids after which it cannot spell what has to follow are left out, as `dead_ends` does.

    Args:
        tokenizer: A `Tokenizer`, or what else offers `token_bytes`.
        regex: In the syntax of Rust's `regex`; no look-around, no back-references.
        json_schema: As JSON.

    Raises:
        MissingExtraError: if llguidance is not installed.
        ConfigError: if the grammar is none, or the vocabulary cannot spell any text of it.
    """
    if not isinstance(tokenizer, ByteSource):
        raise ConfigError("A grammar needs a tokenizer that knows the bytes of its tokens.", "Hand in a Tokenizer.")
    library, vocabulary = _library(), _vocabulary(tokenizer)
    if regex:
        grammar, shown = _regex_grammar(library, regex, vocabulary.alphabet), f"the regular expression {regex!r}"
    else:
        grammar, shown = _json_grammar(library, json_schema), f"the JSON schema {_shortened(json_schema)}"
    matcher = library.LLMatcher(vocabulary.tokenizer, grammar, log_level=0)
    if matcher.is_error():
        raise ConfigError(f"{shown[0].upper()}{shown[1:]} cannot be used: {_reason(matcher.get_error())}")
    constraint: Constraint = GrammarConstraint(matcher, vocabulary)
    if json_schema and vocabulary.alphabet is not None:
        constraint = WithoutDeadEnds(constraint, vocabulary.rank_V)
    if not constraint.can_end and not constraint.allowed().any():
        message = f"The vocabulary of {vocabulary.size} tokens cannot spell any text of {shown}."
        raise ConfigError(message, "Give another grammar, or a model of bytes or byte-level BPE.")
    return constraint


class _Vocabulary:
    """A tokenizer as the library takes it: bytes of ids, an end, and a way to spell bytes that are forced."""

    def __init__(self, library: Any, tokenizer: ByteSource) -> None:
        self.size = tokenizer.vocab_size
        tokens = _bytes_of_ids(tokenizer)
        self.end = self.size if tokenizer.end_of_text is None else tokenizer.end_of_text
        texts = [data for id, data in enumerate(tokens) if id != self.end and data]
        if self.end == self.size:
            tokens.append(b"<end>")
        missing = sorted({bytes([value]) for value in range(256)} - set(texts))
        self.alphabet = _alphabet(texts) if missing else None
        """The characters of a vocabulary that has nothing but characters; None for any other."""
        self.rank_V = np.array([_rank(tokens[id]) for id in range(self.size)], np.int64)
        """In which order to look for the end of a JSON text: what closes first, white space last."""
        self._tokenizer = None if missing else tokenizer
        self._tokens = tokens = tokens + missing
        self._ids = {data: id for id, data in reversed(list(enumerate(tokens))) if id != self.end and data}
        self._longest = max(map(len, self._ids))
        self.eos_token_id, self.bos_token_id, self.special_token_ids, self.tokens = self.end, None, [self.end], tokens
        self.tokenizer = library.LLTokenizer(library.TokenizerWrapper(self))

    def __call__(self, data: bytes | str) -> list[int]:
        """Returns ids that spell the bytes: the tokenizer's own where they do, else the longest that fit, in turn."""
        data = data.encode("utf-8") if isinstance(data, str) else data
        if self._tokenizer is not None:
            ids = self._tokenizer.encode_bytes(data).tolist()
            if b"".join(self._tokens[id] for id in ids) == data:  # rules for text may have changed it
                return ids
        return list(self._longest_matches(data))

    def _longest_matches(self, data: bytes) -> Sequence[int]:
        ids, start = [], 0
        while start < len(data):
            sizes = range(min(self._longest, len(data) - start), 0, -1)
            size = next(size for size in sizes if data[start : start + size] in self._ids)
            ids.append(self._ids[data[start : start + size]])
            start += size
        return ids


_VOCABULARIES: "WeakKeyDictionary[ByteSource, _Vocabulary]" = WeakKeyDictionary()  # GPT-2's takes half a second to make


def _vocabulary(tokenizer: ByteSource) -> _Vocabulary:
    if tokenizer not in _VOCABULARIES:
        _VOCABULARIES[tokenizer] = _Vocabulary(_library(), tokenizer)
    return _VOCABULARIES[tokenizer]


def _library() -> Any:
    try:
        import llguidance  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise MissingExtraError("Grammars need llguidance.", "pip install 'nextok[grammar]'") from error
    return llguidance


def _bytes_of_ids(tokenizer: ByteSource) -> list[bytes]:
    """Returns the bytes of each id, none for an id that no token has, which the tokenizer warns of."""
    tokens = []
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        for id in range(tokenizer.vocab_size):
            n_met = len(met)
            data = tokenizer.token_bytes(id)
            tokens.append(data if len(met) == n_met else b"")
    return tokens


def _rank(data: bytes) -> int:
    return 0 if data in (b'"', b"}", b"]") else 2 if data.isspace() else 1


def _alphabet(texts: Sequence[bytes]) -> frozenset[str] | None:
    characters = frozenset(data.decode("utf-8", "replace") for data in texts)
    return characters if all(len(each) == 1 for each in characters) else None


def _regex_grammar(library: Any, regex: str, alphabet: frozenset[str] | None) -> str:
    if alphabet is None:
        return str(library.LLMatcher.grammar_from_regex(regex))
    spelled = "".join(f"\\x{{{ord(each):x}}}" for each in sorted(alphabet))
    rule = f"start: TEXT\nTEXT: /{library.regex_to_lark(regex, '')}/ & /[{spelled}]*/\n"
    return str(library.LLMatcher.grammar_from_lark(rule))


def _json_grammar(library: Any, schema: str) -> str:
    try:
        value = from_json(schema)
    except ValueError as error:
        raise ConfigError(f"The JSON schema {_shortened(schema)} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ConfigError(
            f"The JSON schema {_shortened(schema)} is not an object.", 'Any object is {"type": "object"}.'
        )
    return str(library.LLMatcher.grammar_from_json_schema(value, defaults=_JSON_OPTIONS))


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _reason(said: str) -> str:
    """Returns the telling line of what the library says, which may be a drawing of several."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason given"]
    return (
        next((line for line in lines if line.startswith("error:")), lines[0]).removeprefix("error: ").rstrip(".") + "."
    )
