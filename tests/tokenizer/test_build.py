from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import TokenizerError
from nextok.tokenizer import TextRules, byte_level_bpe, byte_tokenizer, char_tokenizer, train_bpe
from nextok.tokenizer.byte_symbols import byte_symbols

FEW = settings(deadline=None, max_examples=60)


def test_tiny_shakespeare_has_65_characters(shared_data: Callable[[str], Path]) -> None:
    text = shared_data("tinyshakespeare.txt").read_text(encoding="utf-8")
    tokenizer = char_tokenizer([text], end_of_text=False)
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (65, None)
    ids = tokenizer.encode(text)
    assert len(ids) == 1_115_394
    assert ids[:5].tolist() == [18, 47, 56, 57, 58]  # "First", as every course on this text has it
    assert char_tokenizer([text], end_of_text=True).end_of_text == 65


@FEW
@given(st.sets(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_characters_are_numbered_by_code_point_and_end_of_text_comes_last(alphabet: set[str]) -> None:
    tokenizer = char_tokenizer(alphabet, end_of_text=True)
    assert tokenizer.decode(range(len(alphabet))) == "".join(sorted(alphabet))
    assert (tokenizer.end_of_text, tokenizer.vocab_size) == (len(alphabet), len(alphabet) + 1)


def test_the_alphabet_is_that_of_the_text_after_the_rules() -> None:
    rules = TextRules(newlines="lf", normalization="nfc")
    tokenizer = char_tokenizer(["a\r\n", "e\u0301"], end_of_text=False, rules=rules)
    assert tokenizer.decode(range(tokenizer.vocab_size)) == "\na\u00e9"


@pytest.mark.parametrize("pieces", [[], [""], ["", ""]])
def test_an_empty_text_makes_no_vocabulary(pieces: list[str]) -> None:
    with pytest.raises(TokenizerError, match="no characters"):
        char_tokenizer(pieces, end_of_text=True)
    with pytest.raises(TokenizerError, match="is empty"):
        train_bpe(pieces, 300)


def test_byte_ids_are_the_bytes() -> None:
    tokenizer = byte_tokenizer()
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.end_of_text) == ("byte", 257, 256)
    assert [tokenizer.token_bytes(value) for value in range(256)] == [bytes([value]) for value in range(256)]


def test_a_trained_vocabulary_has_the_asked_size_all_bytes_and_end_of_text_last(sample: str) -> None:
    tokenizer = train_bpe([sample], 300)
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.end_of_text) == ("bpe", 300, 299)
    assert {tokenizer.token_bytes(i) for i in range(256)} == {bytes([value]) for value in range(256)}


def test_training_shortens_its_own_text(sample: str) -> None:
    assert len(train_bpe([sample], 400).encode(sample)) < len(sample.encode()) / 2


def test_the_same_text_trains_the_same_tokenizer(sample: str) -> None:
    trained = [train_bpe(iter(sample.splitlines(keepends=True)), 350).fingerprint for _ in range(3)]
    assert len(set(trained)) == 1


def test_a_short_text_gives_a_smaller_vocabulary() -> None:
    tokenizer = train_bpe(["aaaa bc aaaa bc"], 5_000)
    assert 257 < tokenizer.vocab_size < 300
    assert tokenizer.end_of_text == tokenizer.vocab_size - 1
    assert tokenizer.encode("aaaa").tolist() != [tokenizer.encode("a")[0]] * 4


def test_the_smallest_vocabulary_is_bytes_and_end_of_text(sample: str) -> None:
    assert train_bpe([sample], 257).vocab_size == 257
    with pytest.raises(TokenizerError, match="256 has no room") as caught:
        train_bpe([sample], 256)
    assert "257" in caught.value.hint


def test_training_follows_the_rules() -> None:
    rules = TextRules(newlines="lf", normalization="nfc")
    tokenizer = train_bpe(["e\u0301t\u00e9\r\n" * 50], 300, rules=rules)
    assert tokenizer.rules == rules
    learned = [tokenizer.token_bytes(i) for i in range(256, tokenizer.vocab_size - 1)]
    assert "\u00e9".encode() in learned
    assert not any(b"\xcc\x81" in token or b"\r" in token for token in learned)
    assert tokenizer.encode("e\u0301te\u0301\r").tolist() == tokenizer.encode("\u00e9t\u00e9\n").tolist()


def test_words_are_split_as_gpt2_splits_them() -> None:
    tokenizer = train_bpe(["it's 12 it's 12 it's 12, " * 20], 400)
    tokens = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size - 1)]
    assert b"'s" in tokens and b" it" in tokens
    assert not any(b" " in token[1:].strip() or b"s 1" in token for token in tokens)


def test_files_that_do_not_belong_together_are_refused() -> None:
    vocabulary = {symbol: value for value, symbol in enumerate(byte_symbols())}
    with pytest.raises(TokenizerError, match="'a' 'b' names a token"):
        byte_level_bpe(vocabulary, [("a", "b")], end_of_text=False)
    del vocabulary["Ġ"]
    with pytest.raises(TokenizerError, match="no token for the byte 0x20"):
        byte_level_bpe(vocabulary, [], end_of_text=False)
