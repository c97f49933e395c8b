"""Bytes become text whatever the locale, the packing or the size; what cannot become text is named to the byte."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import CorpusConfig, ReadCounts
from nextok.corpus.decoding import around_kept_bytes, byte_chunks, count_kept_bytes, decoded, raw_bytes
from nextok.corpus.sources import describe_file
from nextok.errors import CorpusError, MissingExtraError

PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def read(path, counts=None, **options):
    return "".join(decoded(describe_file(path), CorpusConfig(**options), counts or ReadCounts()))


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("nextok.corpus.decoding.CHUNK_BYTES", 5)
    monkeypatch.setattr("nextok.corpus.decoding._ZSTD_CHUNK_BYTES", 5)


@pytest.mark.parametrize("suffix", PACKERS)
def test_every_packing_gives_the_same_text(tmp_path, suffix, small_chunks):
    text = "“Où?” 😀\r\n" * 20
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKERS[suffix](text.encode()))
    counts = ReadCounts()
    assert read(path, counts) == text
    assert counts.disk_bytes == path.stat().st_size


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_several_packed_streams_in_one_file_are_all_read(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(PACKERS[suffix](b"one ") + PACKERS[suffix](b"two"))
    assert read(path) == "one two"


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_a_packed_file_that_is_cut_short_is_refused_by_name(tmp_path, suffix):
    packed = PACKERS[suffix](os.urandom(4000).hex().encode())
    path = tmp_path / f"a{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorpusError, match=f"a\\{suffix}.*cut short"):
        read(path)


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_a_file_that_is_not_what_its_suffix_says_is_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"plain text, long enough to be no header of anything")
    with pytest.raises(CorpusError, match=f"a\\{suffix}"):
        read(path)


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(b"x"))
    with pytest.raises(MissingExtraError, match=r"nextok\[formats\]"):
        read(path)


def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path):
    with pytest.raises(CorpusError, match="gone"):
        read(tmp_path / "gone.txt")


@pytest.mark.parametrize("at", [0, 3, 4, 5, 9, 14])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_bad_byte_is_named_with_its_offset_in_the_file_value_and_cure(tmp_path, small_chunks, at, mark):
    good = b"abcdefghijklmno"
    path = tmp_path / "a.txt"
    path.write_bytes(mark + good[:at] + b"\x92" + good[at:])
    with pytest.raises(CorpusError, match=rf"a\.txt.*0x92 at offset {len(mark) + at}\b") as caught:
        read(path)
    assert "cp1252" in caught.value.hint
    assert "replace" in caught.value.hint


def test_a_character_cut_by_the_end_of_the_file_is_a_bad_byte(tmp_path, small_chunks):
    path = tmp_path / "a.txt"
    path.write_bytes(b"abcd\xe2\x80")
    with pytest.raises(CorpusError, match="0xe2 at offset 4"):
        read(path)


def test_bad_bytes_are_replaced_where_asked(tmp_path, small_chunks):
    path = tmp_path / "a.txt"
    path.write_bytes(b"it\x92s on\x96")
    assert read(path, bad_bytes="replace") == "it\ufffds on\ufffd"


@given(data=st.binary(max_size=60))
def test_bytes_that_are_kept_come_back_exactly(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("kept") / "a.txt"
    path.write_bytes(data)
    marks = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
    if not data.startswith(marks):
        assert raw_bytes(read(path, bad_bytes="keep")) == data


def test_kept_bytes_are_counted_and_left_alone_by_changes_to_the_text():
    text = b"a\xff\xfeb\x80".decode("utf-8", "surrogateescape")
    assert count_kept_bytes(text) == 3
    assert raw_bytes(around_kept_bytes(text, str.upper)) == b"A\xff\xfeB\x80"


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_one_byte_order_mark_is_stripped_and_counted(tmp_path, small_chunks, encoding):
    path = tmp_path / "a.txt"
    text = "the “end” 😀"
    own_mark = "\ufeff" if encoding.endswith(("le", "be")) else ""  # the other codecs write one by themselves
    path.write_bytes((own_mark + text).encode(encoding))
    counts = ReadCounts()
    assert read(path, counts) == text
    assert counts.byte_order_marks == 1
    assert counts.utf16_files == (encoding != "utf-8-sig")


def test_a_mark_inside_the_text_stays(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("a\ufeffb".encode())
    assert read(path) == "a\ufeffb"


def test_utf16_cut_in_the_middle_of_a_unit_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("ab".encode("utf-16")[:-1])
    with pytest.raises(CorpusError, match="utf-16-le.*offset 4"):
        read(path, bad_bytes="keep")


def test_another_encoding_is_used_where_it_is_named(tmp_path, small_chunks):
    for encoding, text in (("cp1252", "it’s ÿþ"), ("latin-1", "ï»¿the"), ("shift_jis", "日本語テキスト")):
        path = tmp_path / f"{encoding}.txt"
        path.write_bytes(text.encode(encoding))
        assert read(path, encoding=encoding) == text


def test_a_bad_byte_of_another_encoding_has_the_right_offset(tmp_path, small_chunks):
    path = tmp_path / "a.txt"
    path.write_bytes("日本語".encode("shift_jis") + b"\xff")
    with pytest.raises(CorpusError, match="0xff at offset 6"):
        read(path, encoding="shift_jis")


@given(text=st.text("a\r\n", max_size=40), size=st.integers(1, 7))
def test_no_piece_ends_between_cr_and_lf(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("pieces") / "a.txt"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nextok.corpus.decoding.CHUNK_BYTES", size)
        pieces = list(decoded(describe_file(path), CorpusConfig(), ReadCounts()))
    assert "".join(pieces) == text
    assert not any(a.endswith("\r") and b.startswith("\n") for a, b in zip(pieces, pieces[1:], strict=False))


def test_bytes_arrive_in_bounded_pieces(tmp_path, small_chunks):
    path = tmp_path / "a.txt"
    path.write_bytes(bytes(23))
    assert max(map(len, byte_chunks(describe_file(path), ReadCounts()))) == 5


def test_the_locale_has_no_say(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("it’s".encode())
    script = (
        "import locale, sys; from pathlib import Path; from nextok.corpus import *;"
        "assert locale.getencoding().lower().replace('-', '') != 'utf8', 'the test needs another locale';"
        "config = CorpusConfig(val_fraction=0);"
        "c = prepare([sys.argv[1]], tokenizer='char', out=Path(sys.argv[2]), config=config, cache=Path());"
        "sys.stdout.buffer.write(c.tokenizer.decode(c.train.tokens(0, len(c.train))).encode('utf-8'))"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", script]
    done = subprocess.run([*command, str(path), str(tmp_path / "out")], env=environment, capture_output=True)
    assert done.stdout.decode("utf-8") == "it’s", done.stderr.decode("utf-8", "replace")
