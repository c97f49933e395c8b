"""Documents of every format, and plain errors for files that are not what they claim."""

import bz2
import gzip
import json
import lzma
import sys

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from nextok.corpus import CorpusConfig, ReadCounts
from nextok.corpus.formats import documents_of
from nextok.corpus.sources import describe_file
from nextok.errors import CorpusError, MissingExtraError

TEXTS = ["plain", 'quotes " and, commas', "two\nlines", "tab\there", "“Où?” 😀", "a\u2028b", ""]


def read(path, **options):
    counts = ReadCounts()
    return ["".join(chunks) for chunks in documents_of(describe_file(path), CorpusConfig(**options), counts)]


def json_lines(texts):
    return "".join(json.dumps({"id": 1, "text": text}, ensure_ascii=False) + "\n" for text in texts).encode()


def delimited(texts, separator):
    rows = [separator.join(["id", "text"])]
    rows += [separator.join(["1", '"' + text.replace('"', '""') + '"']) for text in texts]
    return "\n".join(rows).encode()


CONTENTS = {
    "jsonl": json_lines(TEXTS),
    "ndjson": json_lines(TEXTS),
    "csv": delimited(TEXTS, ","),
    "tsv": delimited(TEXTS, "\t"),
}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("name", CONTENTS)
def test_each_record_is_a_document_in_every_format_and_packing(tmp_path, name, suffix, monkeypatch):
    monkeypatch.setattr("nextok.corpus.decoding.CHUNK_BYTES", 7)
    path = tmp_path / f"a.{name}{suffix}"
    path.write_bytes(PACKERS[suffix](CONTENTS[name]))
    assert read(path) == TEXTS


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a", "a.log.3"])
def test_a_text_file_is_one_document(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"one\n\n\ntwo")
    assert read(path) == ["one\n\n\ntwo"]


def test_parquet_rows_are_documents_and_null_is_empty(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [*TEXTS, None] * 100
    table = pyarrow.table({"id": list(range(len(texts))), "text": texts})
    pyarrow.parquet.write_table(table, path, row_group_size=30)
    counts = ReadCounts()
    found = ["".join(chunks) for chunks in documents_of(describe_file(path), CorpusConfig(), counts)]
    assert found == [text or "" for text in texts]
    assert counts.disk_bytes == path.stat().st_size


def test_parquet_without_pyarrow_names_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=r"nextok\[formats\]"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize("content", [b"", b"no parquet at all", b"PAR1" + bytes(40) + b"PAR1"])
def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(CorpusError, match=r"a\.parquet"):
        read(tmp_path / "a.parquet")


def test_parquet_packed_again_is_refused(tmp_path):
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(CorpusError, match="packed twice"):
        read(tmp_path / "a.parquet.gz")


def test_another_field_name_is_told_with_file_line_and_the_fields_there_are(tmp_path):
    for name, where in (("jsonl", r"a\.jsonl, line 2,"), ("csv", r"a\.csv, line 1,"), ("parquet", r"a\.parquet")):
        path = tmp_path / f"a.{name}"
        if name == "jsonl":
            path.write_bytes(b'{"text": "x"}\n{"id": 1, "body": "y"}\n')
        elif name == "csv":
            path.write_bytes(b"id,body\n1,x\n")
        else:
            pyarrow.parquet.write_table(pyarrow.table({"id": [1], "body": ["x"]}), path)
        with pytest.raises(CorpusError, match=f"{where} has no field 'text'; fields present: id, body") as caught:
            read(path)
        assert "--text-field" in caught.value.hint


def test_the_field_can_be_chosen(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"body": "x"}')
    (tmp_path / "a.csv").write_bytes(b"id,body\n1,x\n")
    assert read(tmp_path / "a.jsonl", text_field="body") == read(tmp_path / "a.csv", text_field="body") == ["x"]


@pytest.mark.parametrize(
    "line", [b"{", b"text", b'{"text": "x"} {"text": "y"}', b"[" * 100_000, b'["text"]', b'"text"', b'{"text": 3}']
)
def test_a_line_that_is_no_object_with_text_is_told_with_file_and_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "x"}\n\n' + line + b"\n")
    with pytest.raises(CorpusError, match=r"a\.jsonl, line 3,"):
        read(path)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_records_may_end_in_any_line_end(tmp_path, end):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}' + end + b'{"text": "y"}' + end)
    (tmp_path / "a.csv").write_bytes(b"id,text" + end + b"1,x" + end + b'2,"y"' + end)
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "a.csv") == ["x", "y"]


def test_null_and_blank_lines_are_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\n{"text": null}\n  \n{"text": "x"}\n')
    assert read(tmp_path / "a.jsonl") == ["", "x"]


@pytest.mark.parametrize("content", [b'id,text\n1,"x"y\n', b'id,text\n1,"x\n', b"id,text\n1\n"])
def test_a_broken_csv_row_is_told_with_file_and_line(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(CorpusError, match=r"a\.csv, line \d,"):
        read(tmp_path / "a.csv")


def test_a_csv_field_may_be_longer_than_the_module_allows_by_default(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"x" * 200_000)
    assert read(tmp_path / "a.csv") == ["x" * 200_000]


def test_a_record_over_the_limit_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("nextok.corpus.formats.RECORD_LIMIT_CHARACTERS", 100)
    monkeypatch.setattr("nextok.corpus.decoding.CHUNK_BYTES", 30)
    (tmp_path / "a.jsonl").write_bytes(json_lines(["x", "y" * 100]))
    (tmp_path / "a.csv").write_bytes(b'text\nx\n"' + b"y\n" * 100)
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x", "y" * 101]}), tmp_path / "a.parquet")
    for name, where in (("jsonl", "line 2"), ("csv", "line"), ("parquet", "row 2")):
        with pytest.raises(CorpusError, match=rf"a\.{name}, {where}"):
            read(tmp_path / f"a.{name}")


def test_half_a_surrogate_pair_is_told_or_replaced_never_written(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a\\ud83d"}\n{"text": "\\ud83d\\ude00"}')
    for policy in ("strict", "keep"):
        with pytest.raises(CorpusError, match=r"a\.jsonl, line 1, holds half of a surrogate pair"):
            read(path, bad_bytes=policy)
    assert read(path, bad_bytes="replace") == ["a\ufffd", "😀"]


def test_bad_bytes_inside_json_are_kept_where_asked(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a\xff"}')
    assert [text.encode("utf-8", "surrogateescape") for text in read(path, bad_bytes="keep")] == [b"a\xff"]
