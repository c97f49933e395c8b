"""A download is the right file, whole, fetched once and over https; or one sentence, and nothing on the disk."""

import dataclasses
import hashlib
import http.client
import http.server
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextok.download import Download, fetch
from nextok.errors import DiskError, DownloadError

TEXT = b"First Citizen:\n"


class Server(http.server.ThreadingHTTPServer):
    """Serves TEXT at /right, other bytes at /wrong, a part at /cut, `moved_to` at /moved, nothing for long at /slow."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.closing = threading.Event()
        self.moved_to = f"https://127.0.0.1:{self.server_port}/right"

    def at(self, path: str) -> Download:
        url = f"https://127.0.0.1:{self.server_port}/{path}"
        return Download(url=url, sha256=hashlib.sha256(TEXT).hexdigest(), filename="sample.txt", instead="Type it in.")


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/slow":
            self.server.closing.wait(timeout=20)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", self.server.moved_to)
            self.end_headers()
            return
        body = {"/right": TEXT, "/wrong": b"login page", "/cut": TEXT[:5]}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(TEXT if self.path == "/cut" else body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


class PlainHttps(urllib.request.AbstractHTTPHandler):
    """Speaks https without its encryption, so that the server needs no certificate."""

    https_request = urllib.request.AbstractHTTPHandler.do_request_

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(http.client.HTTPConnection, request)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(urllib.request, "HTTPSHandler", PlainHttps)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join()


def test_a_download_is_kept_and_not_fetched_again(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(server.at("right"), tmp_path / "a" / "cache").read_bytes() == TEXT
    assert server.asked == ["/right"]


def test_a_damaged_copy_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "sample.txt").write_bytes(TEXT[:5])
    assert fetch(server.at("right"), tmp_path).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("wrong", "is not sample.txt: 10 bytes with SHA-256"),
        ("cut", "is not sample.txt: 5 bytes with SHA-256"),
        ("missing", "Cannot download .*/missing: Not Found."),
        ("slow", "Cannot download .*/slow: timed out."),
    ],
)
def test_what_is_not_the_file_is_told_and_leaves_nothing_behind(
    server: Server, tmp_path: Path, path: str, reason: str
) -> None:
    with pytest.raises(DownloadError, match=reason) as caught:
        fetch(server.at(path), tmp_path, timeout_s=0.5)
    assert caught.value.hint == "Type it in."
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_is_followed_inside_https_alone(server: Server, tmp_path: Path) -> None:
    assert fetch(server.at("moved"), tmp_path / "followed").read_bytes() == TEXT
    server.moved_to = server.moved_to.replace("https:", "http:")
    with pytest.raises(DownloadError, match="unknown url type: http"):
        fetch(server.at("moved"), tmp_path / "refused")
    assert server.asked == ["/moved", "/right", "/moved"]


def test_without_a_network_one_sentence_says_why(server: Server, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        nobody = dataclasses.replace(server.at("right"), url=f"https://127.0.0.1:{unused.getsockname()[1]}/right")
        with pytest.raises(DownloadError) as caught:
            fetch(nobody, tmp_path)
    assert re.fullmatch(r"Cannot download https://[\w.:/]+: [^.]*refused[^.]*\. Type it in\.", str(caught.value))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_of_the_disk(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(DiskError):
        fetch(server.at("right"), tmp_path / "cache")
