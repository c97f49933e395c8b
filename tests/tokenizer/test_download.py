import hashlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextok.errors import DownloadError
from nextok.tokenizer import download, download_gpt2
from nextok.tokenizer.gpt2 import GPT2_SHA256

CONTENT = {"encoder.json": b'{"a": 0}', "vocab.bpe": b"#version: 0.2\n"}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        data = CONTENT.get(self.path.strip("/"))
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_addresses(server: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in CONTENT.items():
        monkeypatch.setitem(download.ADDRESSES, name, f"http://127.0.0.1:{server.server_port}/{name}")
        monkeypatch.setitem(GPT2_SHA256, name, hashlib.sha256(data).hexdigest())


def test_the_addresses_are_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert all(address.startswith("https://") for address in download.ADDRESSES.values())
    assert download.ADDRESSES.keys() == GPT2_SHA256.keys()


def test_files_are_kept_and_asked_for_once(server: http.server.HTTPServer, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "gpt2"
    encoder, merges = download_gpt2(folder)
    assert (encoder.read_bytes(), merges.read_bytes()) == (CONTENT["encoder.json"], CONTENT["vocab.bpe"])
    download_gpt2(folder)
    assert server.asked == ["/encoder.json", "/vocab.bpe"]  # type: ignore[attr-defined]


def test_a_damaged_file_is_fetched_again(server: http.server.HTTPServer, tmp_path: Path) -> None:
    (tmp_path / "encoder.json").write_bytes(b"cut sho")
    encoder, _ = download_gpt2(tmp_path)
    assert encoder.read_bytes() == CONTENT["encoder.json"]


def test_another_file_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GPT2_SHA256, "vocab.bpe", "0" * 64)
    with pytest.raises(DownloadError, match=r"is not GPT-2's vocab.bpe \(14 bytes\)"):
        download_gpt2(tmp_path)
    assert not (tmp_path / "vocab.bpe").exists()


def test_a_refusal_of_the_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(download.ADDRESSES, "encoder.json", download.ADDRESSES["encoder.json"] + "x")
    with pytest.raises(DownloadError, match="encoder.jsonx: Not Found"):
        download_gpt2(tmp_path)


def test_without_a_network_the_message_says_how_to_do_it_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        monkeypatch.setitem(
            download.ADDRESSES, "encoder.json", f"http://127.0.0.1:{unused.getsockname()[1]}/encoder.json"
        )
        with pytest.raises(DownloadError, match="Cannot download") as caught:
            download_gpt2(tmp_path, timeout_s=5)
    assert "encoder.json and vocab.bpe" in caught.value.hint
    assert "nextok[gpt2]" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
