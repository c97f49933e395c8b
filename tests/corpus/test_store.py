"""A prepared folder opens with every promise checked, and nothing else is mistaken for one."""

import json
import shutil

import pytest

from nextok.corpus import open_corpus
from nextok.corpus.store import check_replaceable
from nextok.errors import CorpusError, TokenizerError


@pytest.fixture
def corpus(prepared):
    return prepared(b"the cat sat on the mat. " * 20)


def edit(corpus, *path, value):
    """Changes one value of the manifest on disk."""
    file = corpus.folder / "corpus.json"
    content = table = json.loads(file.read_text(encoding="utf-8"))
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = value
    file.write_text(json.dumps(content), encoding="utf-8")


def test_what_was_prepared_opens_again_also_from_another_place(corpus, tmp_path):
    moved = shutil.copytree(corpus.folder, tmp_path / "moved")
    again = open_corpus(moved)
    assert again.manifest == corpus.manifest
    assert again.fingerprint == corpus.fingerprint == again.manifest.corpus_fingerprint
    assert again.tokenizer.fingerprint == corpus.tokenizer.fingerprint
    assert again.train.tokens(0, len(again.train)).tolist() == corpus.train.tokens(0, len(corpus.train)).tolist()


def test_a_folder_that_is_no_corpus_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="not a prepared corpus"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("name", ["train-00000.npy", "validation-00000.npy", "train-documents.npy"])
@pytest.mark.parametrize("keep_bytes", [None, 0, 128, -1])
def test_a_file_that_is_missing_or_cut_is_refused_by_name(corpus, name, keep_bytes):
    path = corpus.folder / name
    content = path.read_bytes()
    path.unlink()
    if keep_bytes is not None:
        path.write_bytes(content[:keep_bytes])
    with pytest.raises(CorpusError, match=name):
        open_corpus(corpus.folder)


def test_a_missing_tokenizer_is_refused(corpus):
    (corpus.folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError):
        open_corpus(corpus.folder)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("schema",), None),
        (("dtype",), "uint32"),
        (("vocab_size",), 70_000),
        (("tokenizer_fingerprint",), "0"),
        (("train", "largest_id"), 5_000),
        (("train", "tokens"), 5),
        (("train", "shards"), [{"name": "../../secret.npy", "tokens": 432}]),
        (("train", "shards"), "x"),
        (("config", "val_fraction"), 2.0),
        (("unheard_of",), 1),
    ],
)
def test_a_manifest_that_contradicts_its_files_is_refused(corpus, path, value):
    edit(corpus, *path, value=value)
    with pytest.raises(CorpusError):
        open_corpus(corpus.folder)


def test_nothing_but_an_older_corpus_is_replaced(corpus, tmp_path):
    check_replaceable(corpus.folder)
    check_replaceable(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty")


@pytest.mark.parametrize("name", ["notes.txt", "train.npy", ".hidden"])
def test_a_folder_with_anything_else_in_it_is_never_replaced(corpus, name):
    (corpus.folder / name).write_text("mine", encoding="utf-8")
    with pytest.raises(CorpusError, match=name):
        check_replaceable(corpus.folder)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(CorpusError, match="out"):
        check_replaceable(tmp_path / "out")
