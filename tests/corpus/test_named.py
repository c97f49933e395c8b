"""Named corpora: the standard library from disk, tiny shakespeare by its checksum."""

import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from nextok.corpus import NAMED, find_files
from nextok.corpus.named import TINY_SHAKESPEARE, Download, fetch, python_stdlib_files
from nextok.errors import CorpusError, DownloadError

TEXT = b"First Citizen:\n"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves TEXT at /right and other bytes at /wrong; everything else is 404. Yields its address and its requests."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            body = {"/right": TEXT, "/wrong": b"login page"}.get(self.path)
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}", requests
    running.shutdown()
    thread.join()
    running.server_close()


def download(url: str) -> Download:
    return Download(name="sample", url=url, sha256=hashlib.sha256(TEXT).hexdigest(), filename="sample.txt")


def test_a_download_is_kept_and_not_fetched_again(server, tmp_path):
    address, requests = server
    for _ in range(2):
        assert fetch(download(f"{address}/right"), tmp_path / "cache").read_bytes() == TEXT
    assert requests == ["/right"]


def test_a_damaged_copy_in_the_cache_is_fetched_again(server, tmp_path):
    (tmp_path / "sample.txt").write_bytes(TEXT[:5])
    assert fetch(download(f"{server[0]}/right"), tmp_path).read_bytes() == TEXT


@pytest.mark.parametrize("path", ["/wrong", "/missing"])
def test_what_is_not_the_file_leaves_nothing_behind(server, tmp_path, path):
    with pytest.raises(DownloadError, match="name its path in place of 'sample'"):
        fetch(download(server[0] + path), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_network_one_sentence_says_how_to_supply_the_file(tmp_path):
    with pytest.raises(DownloadError) as caught:
        fetch(download("http://127.0.0.1:9/closed"), tmp_path, timeout_s=1)
    sentence = str(caught.value)
    assert "name its path in place of 'sample'" in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert ". " not in sentence


def test_the_known_checksum_is_that_of_the_real_file(shared_data):
    content = shared_data("tinyshakespeare.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == TINY_SHAKESPEARE.sha256


def test_tiny_shakespeare_comes_from_the_cache_without_network(shared_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / TINY_SHAKESPEARE.filename).write_bytes(shared_data("tinyshakespeare.txt").read_bytes())
    found = find_files(["tinyshakespeare"], tmp_path)
    assert [file.path for file in found.files] == [tmp_path / TINY_SHAKESPEARE.filename]


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
