"""Named corpora: the standard library from disk, tiny shakespeare by its checksum."""

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from nextok.corpus import NAMED, find_files
from nextok.corpus.named import TINY_SHAKESPEARE, python_stdlib_files
from nextok.errors import CorpusError, DownloadError


def test_the_known_checksum_is_that_of_the_real_file(shared_data):
    content = shared_data("tinyshakespeare.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == TINY_SHAKESPEARE.sha256


def test_tiny_shakespeare_comes_from_the_cache_without_network(shared_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / TINY_SHAKESPEARE.filename).write_bytes(shared_data("tinyshakespeare.txt").read_bytes())
    found = find_files(["tinyshakespeare"], tmp_path)
    assert [file.path for file in found.files] == [tmp_path / TINY_SHAKESPEARE.filename]


def test_without_a_network_the_hint_says_how_to_supply_the_file(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", no_network)
    with pytest.raises(DownloadError, match="input.txt: no network") as caught:
        find_files(["tinyshakespeare"], tmp_path)
    assert caught.value.hint == "Save that file by any means and name its path in place of tinyshakespeare."


def test_the_standard_library_is_sorted_source_without_tests(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [file.path for file in find_files(["python-stdlib"], tmp_path).files]
    parts = {part for path in paths for part in path.parts}
    root = next(path.parent for path in paths if path.name == "os.py")
    relative = [path.relative_to(root).as_posix() for path in paths]
    assert relative == sorted(relative)
    assert {"argparse.py", "json/decoder.py"} <= set(relative)
    assert not {"site-packages", "dist-packages", "test", "tests", "idle_test"} & parts
    assert {path.suffix for path in paths} == {".py"}


def test_a_standard_library_without_source_is_refused(tmp_path):
    (tmp_path / "os.pyc").write_bytes(b"")
    with pytest.raises(CorpusError, match="no source files"):
        python_stdlib_files(Path(tmp_path))


def test_every_name_is_explained():
    assert set(NAMED) == {"python-stdlib", "tinyshakespeare"}
    assert all(NAMED.values())
