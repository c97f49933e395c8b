"""Counts tell what the files held before any rule changed it."""

from nextok.corpus import CorpusConfig, ReadCounts, read_pieces
from nextok.corpus.sources import describe_file
from nextok.tokenizer import TextRules


def count(path, **options):
    counts = ReadCounts()
    rules = TextRules(newlines="lf")
    text = "".join(piece.text for piece in read_pieces([describe_file(path)], CorpusConfig(**options), rules, counts))
    return counts, text


def test_each_kind_of_line_end_is_counted_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\rc\nd\r\r\n\n")
    counts, text = count(path)
    assert (counts.crlf_newlines, counts.cr_newlines, counts.lf_newlines) == (2, 2, 2)
    assert text == "a\nb\nc\nd\n\n\n"


def test_nul_characters_are_kept_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ab\x00cd\x00")
    counts, text = count(path)
    assert counts.nul_characters == 2
    assert text == "ab\0cd\0"


def test_a_nul_written_as_a_json_escape_is_kept_and_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "ab\\u0000cd"}\n')
    counts, text = count(path)
    assert counts.nul_characters == 1
    assert text == "ab\0cd"


def test_replaced_and_kept_bytes_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xffb\x92")
    assert count(path, bad_bytes="replace")[0].replacement_characters == 2
    counts, text = count(path, bad_bytes="keep")
    assert counts.kept_bytes == 2
    assert text.encode("utf-8", "surrogateescape") == b"a\xffb\x92"


def test_files_and_bytes_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"")
    counts, _ = count(path)
    assert (counts.files, counts.documents, counts.empty_documents, counts.disk_bytes) == (1, 0, 1, 0)
