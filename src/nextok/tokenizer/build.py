"""Tokenizers made here: from the characters of a text, from the 256 bytes, and byte-level BPE trained on a text.

GPT-2's own vocabulary is in `gpt2.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from nextok.errors import TokenizerError
from nextok.tokenizer.byte_symbols import byte_symbols
from nextok.tokenizer.pieces import cut_text
from nextok.tokenizer.text_rules import TextRules, well_formed
from nextok.tokenizer.tokenizer import END_OF_TEXT, Tokenizer

SMALLEST_BPE = 257  # 256 bytes and end of text


def char_tokenizer(characters: Iterable[str], *, end_of_text: bool, rules: TextRules | None = None) -> Tokenizer:
    """Returns a tokenizer with one id a character, in the order of their code points.

    Args:
        characters: Any pieces of text; every character in them, after the rules, gets an id.
        end_of_text: Whether to add an id that separates documents, as the last one.
        rules: What happens to text before it is encoded; nothing by default.

    Raises:
        TokenizerError: if there is no character at all.
    """
    rules = rules or TextRules()
    alphabet: set[str] = set()
    for piece in characters:
        alphabet.update(rules.apply(piece))
    if not alphabet:
        raise TokenizerError("The text has no characters to make a vocabulary of.", "Give a text that is not empty.")
    vocabulary = {character: rank for rank, character in enumerate(sorted(alphabet))}
    library = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    library.decoder = decoders.Fuse()
    return _finished(library, rules, end_of_text=end_of_text)


def byte_tokenizer(*, rules: TextRules | None = None) -> Tokenizer:
    """Returns the tokenizer whose ids 0..255 are the bytes of UTF-8 and whose id 256 is end of text."""
    vocabulary = {symbol: value for value, symbol in enumerate(byte_symbols())}
    return byte_level_bpe(vocabulary, [], rules=rules, end_of_text=True, split=False)


def train_bpe(pieces: Iterable[str], vocab_size: int, *, rules: TextRules | None = None) -> Tokenizer:
    """Returns a byte-level BPE tokenizer trained on the pieces: the same pieces give the same tokenizer.

    Ids: 256 bytes, then merges in the order they were found, then end of text. A pair must occur twice to be merged, so
    a short text gives fewer than `vocab_size` entries: compare `vocab_size` of what comes back.

    Args:
        pieces: The text in parts of any length, read once; words are not joined across parts.
        vocab_size: The number of ids wanted, end of text included; at least 257.
        rules: What happens to text before it is encoded; nothing by default.

    Raises:
        TokenizerError: if `vocab_size` is below 257 or the text is empty.
    """
    check_bpe_size(vocab_size)
    rules = rules or TextRules()
    library = tokenizers.Tokenizer(models.BPE())
    library.normalizer = rules.normalizer()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    library.train_from_iterator(_not_empty(pieces), trainer=trainer)
    return _finished(library, rules, end_of_text=True)


def byte_level_bpe(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    rules: TextRules | None = None,
    end_of_text: bool,
    split: bool = True,
) -> Tokenizer:
    """Returns the byte-level BPE tokenizer of a vocabulary and its merges in the order of their rank.

    Args:
        vocabulary: The id of each token, spelled in `byte_symbols`.
        merges: Pairs of tokens that become one.
        rules: What happens to text before it is encoded; nothing by default.
        end_of_text: Whether `<|endoftext|>` is a token: the one of the vocabulary, or a new last one.
        split: Whether text is first split into words by GPT-2's pattern.

    Raises:
        TokenizerError: if a byte is missing, or a merge names a token that the vocabulary does not have.
    """
    missing = [value for value, symbol in enumerate(byte_symbols()) if symbol not in vocabulary]
    if missing:
        raise TokenizerError(
            f"The vocabulary has no token for the byte 0x{missing[0]:02X}.", "Give the one of a byte-level BPE."
        )
    for left, right in merges:
        if not {left, right, left + right} <= vocabulary.keys():
            raise TokenizerError(
                f"The merge {left!r} {right!r} names a token that the vocabulary does not have.",
                "Give files of one model.",
            )
    library = tokenizers.Tokenizer(models.BPE(vocab=dict(vocabulary), merges=list(merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
    library.decoder = decoders.ByteLevel()
    return _finished(library, rules or TextRules(), end_of_text=end_of_text)


def check_bpe_size(vocab_size: int) -> None:
    """Raises TokenizerError if a byte-level BPE vocabulary cannot be that small."""
    if vocab_size < SMALLEST_BPE:
        raise TokenizerError(
            f"A BPE vocabulary of {vocab_size} has no room for the 256 bytes and end of text.",
            f"Ask for at least {SMALLEST_BPE}, for example bpe:4096.",
        )


def _finished(library: tokenizers.Tokenizer, rules: TextRules, *, end_of_text: bool) -> Tokenizer:
    library.normalizer = rules.normalizer()
    if end_of_text:
        library.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    return Tokenizer(library)


def _not_empty(pieces: Iterable[str]) -> Iterator[str]:
    empty = True
    for piece in pieces:
        for part in cut_text(well_formed(piece)):
            empty = False
            yield part
    if empty:
        raise TokenizerError("The text to train a BPE tokenizer on is empty.", "Give a text that is not empty.")
