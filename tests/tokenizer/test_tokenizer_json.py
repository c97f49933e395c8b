import json
from pathlib import Path
from typing import Any

import pytest

from nextok.errors import TokenizerError
from nextok.tokenizer import Tokenizer

EMPTY: dict[str, Any] = {"version": "1.0", "added_tokens": []}


def bpe_file(vocabulary: dict[str, Any], merges: list[str]) -> str:
    return json.dumps({**EMPTY, "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ('{"model": NaN}', "NaN is not JSON"),
        ("[]", "has no model"),
        ('{"model": 3}', "has no model"),
        ('{"version": "1.0", "model": {"type": "Pickle"}}', "type 'Pickle'"),
        ('{"version": "1.0", "model": {}}', "cannot be used as a tokenizer"),
        (bpe_file({"a": 0, "b": 0}, []), "one id to two tokens"),
        (bpe_file({"a": 0, "b": -1}, []), "not whole numbers"),
        (bpe_file({"a": 0, "b": 1.5}, []), "not whole numbers"),
        (bpe_file({"a": 0, "b": 4_000_000_000}, []), "not whole numbers"),
        (bpe_file({"a": 0, "\ud800": 1}, []), "cannot be used as a tokenizer"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_with_the_reason(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TokenizerError, match=reason) as caught:
        Tokenizer.load(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_panic_of_the_library_is_a_plain_error(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(bpe_file({"a": 0, "b": 9}, ["a b"]), encoding="utf-8")
    with pytest.raises(TokenizerError, match="cannot be used as a tokenizer"):
        Tokenizer.load(path)


def test_a_missing_file_and_bytes_that_are_not_text_are_plain_errors(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="Cannot read"):
        Tokenizer.load(tmp_path / "absent.json")
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenizerError, match="not valid JSON"):
        Tokenizer.load(tmp_path)
