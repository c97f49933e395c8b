"""Files are found in one order, everything left out is counted, and nothing found is an error with a near name."""

import os
from pathlib import Path

import pytest

from nextok.corpus import SourceList, find_files
from nextok.corpus.sources import describe_file
from nextok.errors import CorpusError


def names(found: SourceList, folder: Path) -> list[str]:
    return [file.path.relative_to(folder).as_posix() for file in found.files]


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "texts"
    for name in (
        "b.txt",
        "a.txt",
        "B.md",
        "sub/c.py",
        "sub.txt",
        "é.txt",
        ".hidden",
        ".git/x.txt",
        "p.png",
        "w.npy.gz",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    return folder


def test_a_folder_is_read_by_code_point_order_of_relative_paths(tree, tmp_path):
    found = find_files([str(tree)], tmp_path)
    assert names(found, tree) == ["B.md", "a.txt", "b.txt", "sub.txt", "sub/c.py", "é.txt"]


def test_what_is_left_out_of_a_folder_is_counted_by_reason(tree, tmp_path):
    os.symlink(tree / "nowhere", tree / "broken.txt")
    assert find_files([str(tree)], tmp_path).skipped == {"hidden": 1, "binary": 2, "not a file": 1}


def test_sources_keep_their_order_and_a_file_named_twice_is_read_once(tree, tmp_path):
    found = find_files([str(tree / "sub"), str(tree), str(tree / "a.txt")], tmp_path)
    assert names(found, tree)[0] == "sub/c.py"
    assert len(found.files) == 6
    assert found.skipped["duplicate"] == 2


def test_a_glob_reads_what_matches(tree, tmp_path):
    assert names(find_files([str(tree / "**" / "*.txt")], tmp_path), tree) == ["a.txt", "b.txt", "sub.txt", "é.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("x", encoding="utf-8")
    assert find_files([str(path)], tmp_path).files[0].path == path


def test_a_hidden_file_that_is_named_is_read(tree, tmp_path):
    assert names(find_files([str(tree / ".hidden")], tmp_path), tree) == [".hidden"]


def test_a_prepared_corpus_inside_a_folder_is_not_read_as_text(tree, tmp_path):
    (tree / "out").mkdir()
    for name in ("corpus.json", "tokenizer.json", "train-00000.npy"):
        (tree / "out" / name).write_bytes(b"{}")
    found = find_files([str(tree)], tmp_path)
    assert not any("out/" in name for name in names(found, tree))
    assert found.skipped["prepared corpus"] == 3


def test_a_run_inside_a_folder_is_not_read_as_text(tree, tmp_path):
    (tree / "runs" / "nano" / "plots").mkdir(parents=True)
    for name in ("run.json", "config.json", "plots/loss.svg"):
        (tree / "runs" / "nano" / name).write_bytes(b"{}")
    (tree / "runs" / "notes.txt").write_bytes(b"x")
    found = find_files([str(tree)], tmp_path)
    assert [name for name in names(found, tree) if "runs/" in name] == ["runs/notes.txt"]
    assert found.skipped["run directory"] == 3


def test_a_source_that_is_nowhere_is_named_with_the_nearest_file(tree, tmp_path):
    with pytest.raises(CorpusError, match="shakespear.txt") as caught:
        (tree / "shakespeare.txt").write_text("x", encoding="utf-8")
        find_files([str(tree / "shakespear.txt")], tmp_path)
    assert "shakespeare.txt" in caught.value.hint


def test_a_misspelled_named_corpus_gets_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError) as caught:
        find_files(["python-stdlb"], tmp_path)
    assert "python-stdlib" in caught.value.hint


def test_a_local_file_goes_before_a_named_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tinyshakespeare").write_text("mine", encoding="utf-8")
    assert find_files(["tinyshakespeare"], tmp_path).files[0].path == Path("tinyshakespeare")


@pytest.mark.parametrize("sources", [[], ["empty"], ["*.nothing"], ["only-binary"]])
def test_nothing_to_read_is_refused(tmp_path, monkeypatch, sources):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("only-binary").mkdir()
    Path("only-binary/x.bin").write_bytes(b"x")
    with pytest.raises(CorpusError):
        find_files(sources, tmp_path)


def test_a_binary_file_that_is_named_is_refused_by_name(tmp_path):
    path = tmp_path / "book.pdf"
    path.write_bytes(b"%PDF")
    with pytest.raises(CorpusError, match=r"book\.pdf"):
        find_files([str(path)], tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", ("text", "none")),
        ("a", ("text", "none")),
        ("a.rs", ("text", "none")),
        ("A.JSONL", ("jsonl", "none")),
        ("a.ndjson.zst", ("jsonl", "zst")),
        ("a.csv.gz", ("csv", "gz")),
        ("a.b.tsv.xz", ("tsv", "xz")),
        ("a.parquet", ("parquet", "none")),
        ("a.gz", ("text", "gz")),
        ("a.md.bz2", ("text", "bz2")),
    ],
)
def test_format_and_compression_are_told_by_suffix(name, expected):
    file = describe_file(Path(name))
    assert (file.format, file.compression) == expected


def test_a_name_too_long_for_any_file_is_refused_in_words(tmp_path):
    with pytest.raises(CorpusError, match="Cannot look for 'xxx"):
        find_files(["x" * 5000], tmp_path)
