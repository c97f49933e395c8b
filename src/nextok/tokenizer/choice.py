"""Which tokenizer a run uses, as written after `--tokenizer`: char, byte, bpe:4096, gpt2, or a path."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nextok.errors import ConfigError, TokenizerError
from nextok.tokenizer.build import byte_tokenizer, char_tokenizer, check_bpe_size, train_bpe
from nextok.tokenizer.gpt2 import gpt2_tokenizer
from nextok.tokenizer.text_rules import TextRules
from nextok.tokenizer.tokenizer import Tokenizer
from nextok.tokenizer.tokenizer_json import TOKENIZER_NAME
from nextok.units import parse_count

_WITHOUT_SIZE: dict[str, Literal["char", "byte", "gpt2"]] = {"char": "char", "byte": "byte", "gpt2": "gpt2"}
_KNOWN = "Choose char, byte, bpe:SIZE (such as bpe:4096), gpt2, or the path of a tokenizer.json."
_FILE_PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerChoice:
    """A tokenizer that was asked for; `parse_choice` makes it, `build_tokenizer` builds it."""

    kind: Literal["char", "byte", "bpe", "gpt2", "path"]
    """What to build: a vocabulary from the text (char, bpe), a fixed one (byte, gpt2), or the one at `path`."""

    vocab_size: int | None = None
    """For `bpe`, the number of ids, end of text included; at least 257."""

    path: Path | None = None
    """For `path`, a tokenizer.json, or a folder with one or with the two files of a GPT-2 vocabulary."""


def parse_choice(text: str) -> TokenizerChoice:
    """Returns the choice that the text spells; the names win over files that are called the same.

    Raises:
        TokenizerError: if it is neither a known name nor something that exists.
    """
    name, colon, size = text.partition(":")
    if text in _WITHOUT_SIZE:
        return TokenizerChoice(kind=_WITHOUT_SIZE[text])
    if name == "bpe":
        return TokenizerChoice(kind="bpe", vocab_size=_bpe_size(size, text))
    path = Path(text)
    if text and path.exists():
        return TokenizerChoice(kind="path", path=path)
    if path.name != text or path.suffix:
        raise TokenizerError(f"There is no tokenizer at {text}.", _KNOWN)
    near = difflib.get_close_matches(name.lower(), [*_WITHOUT_SIZE, "bpe"], n=1)
    example = {"bpe": f"bpe:{size or 4096}"}.get(near[0], near[0]) if near else ""
    raise TokenizerError(f"Unknown tokenizer {text!r}.", f"Did you mean {example}? {_KNOWN}" if near else _KNOWN)


def build_tokenizer(
    choice: TokenizerChoice,
    pieces: Callable[[], Iterable[str]],
    *,
    end_of_text: bool,
    rules: TextRules | None = None,
    cache: Path | None = None,
) -> Tokenizer:
    """Returns the tokenizer that was chosen.

    Args:
        choice: What to build.
        pieces: Gives the text to build from, piece by piece; called for `char` and `bpe` only.
        end_of_text: Whether a `char` vocabulary has an id for end of text; byte, bpe and gpt2 always have it.
        rules: What happens to text before it is encoded. A tokenizer from a path that has rules keeps its own.
        cache: Folder for the download of `gpt2` where no installed package carries its files; None for no download.

    Raises:
        TokenizerError: if it cannot be built from this text or read from that path.
        MissingExtraError: for `gpt2` without a cache and without the package that carries its files.
        DownloadError: for `gpt2` whose files have to be fetched and cannot be.
    """
    rules = rules or TextRules()
    if choice.kind == "char":
        return char_tokenizer(pieces(), end_of_text=end_of_text, rules=rules)
    if choice.kind == "byte":
        return byte_tokenizer(rules=rules)
    if choice.kind == "gpt2":
        return gpt2_tokenizer(cache=cache, rules=rules)
    if choice.kind == "bpe":
        assert choice.vocab_size is not None, "a choice of bpe has a size"
        return train_bpe(pieces(), choice.vocab_size, rules=rules)
    assert choice.path is not None, "a choice of a path has one"
    found = _tokenizer_at(choice.path)
    own_rules = found.kind == "other" or found.rules != TextRules()
    return found if own_rules or rules == TextRules() else found.with_rules(rules)


def check_fits(tokenizer: Tokenizer, embedding_rows: int) -> None:
    """Raises TokenizerError if the tokenizer has ids that a model with that many embedding rows cannot look up."""
    rows = tokenizer.vocab_size
    if rows > embedding_rows:
        raise TokenizerError(
            f"The tokenizer has ids up to {rows - 1}, the model has {embedding_rows} embedding rows.",
            f"Use the tokenizer the model was trained with, or train a model of vocab_size = {rows} or more.",
        )


def _bpe_size(size: str, text: str) -> int:
    try:
        vocab_size = parse_count(size)
    except ConfigError as error:
        raise TokenizerError(f"{text!r} does not say how large the vocabulary is.", "Write bpe:4096.") from error
    check_bpe_size(vocab_size)
    return vocab_size


def _tokenizer_at(path: Path) -> Tokenizer:
    if not path.is_dir() or (path / TOKENIZER_NAME).is_file():
        return Tokenizer.load(path)
    for encoder, merges in _FILE_PAIRS:
        if (path / encoder).is_file() and (path / merges).is_file():
            return gpt2_tokenizer(encoder=path / encoder, merges=path / merges)
    pairs = " or ".join(f"{encoder} and {merges}" for encoder, merges in _FILE_PAIRS)
    raise TokenizerError(f"The folder {path} holds no tokenizer.", f"It should hold {TOKENIZER_NAME}, or {pairs}.")
