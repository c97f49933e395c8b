"""The safetensors header: the library's own bytes, and no file that contradicts itself gets through."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.checkpoint.header import encode_header, nbytes, read_header, spec_of
from nextok.errors import CheckpointError


def write_file(path: Path, table: Any, data: bytes = b"") -> Path:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(*, dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_header_of_known_bytes_is_read_by_hand(tmp_path: Path) -> None:
    table = {"__metadata__": {"a": "b"}, "w": entry(shape=[2, 1]), "b": entry(dtype="BF16", shape=[3], offsets=[8, 14])}
    path = write_file(tmp_path / "f", table, bytes(14))
    header = read_header(path)
    begin = path.stat().st_size - 14
    assert header.metadata == {"a": "b"}
    assert [(name, e.dtype, e.shape, e.begin - begin, nbytes(e)) for name, e in header.entries.items()] == [
        ("w", "F32", (2, 1), 0, 8),
        ("b", "BF16", (3,), 8, 6),
    ]


@settings(deadline=None)
@given(st.lists(st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.float16]), max_size=5))
def test_the_header_takes_a_multiple_of_eight_bytes_and_counts_itself(dtypes: list[type]) -> None:
    specs = {f"näme{i}": spec_of("", np.zeros((i, 2), dtype)) for i, dtype in enumerate(dtypes)}
    data = encode_header(specs, {"format": "pt"})
    assert len(data) % 8 == 0
    assert struct.unpack("<Q", data[:8])[0] == len(data) - 8


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.zeros(1, np.complex128)])
def test_a_dtype_that_is_no_tensor_is_refused_by_the_name_of_the_array(array: Any) -> None:
    with pytest.raises(TypeError, match="'odd'"):
        spec_of("odd", array)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"w": entry(offsets=[0, 4])}, "does not take 4 bytes"),
        ({"w": entry(offsets=[-8, 0])}, "whole number"),
        ({"w": entry(shape=[-1, -2])}, "whole number"),
        ({"w": entry(shape=[2.0])}, "whole number"),
        ({"w": entry(shape=[True, 2])}, "whole number"),
        ({"w": entry(shape=None)}, "makes no sense"),
        ({"w": entry(offsets=[0])}, "makes no sense"),
        ({"w": entry(dtype="F8_E4M3", shape=[8])}, "F8_E4M3"),
        ({"w": entry(dtype=[])}, "makes no sense"),
        ({"w": 5}, "makes no sense"),
        ({"w": {"dtype": "F32"}}, "makes no sense"),
        ({"__metadata__": 5, "w": entry()}, "makes no sense"),
        ({"v": entry(), "w": entry()}, "misplaced"),
        ({"w": entry(offsets=[8, 16])}, "misplaced"),
        ({"w": entry(shape=[2**60], offsets=[0, 2**62])}, "cut short"),
        ({}, "accounts for"),
        ([1], "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, table: Any, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        read_header(write_file(tmp_path / "f.safetensors", table, bytes(8)))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04\x00\x00\x08\x08\x00\x00", "torch.save"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "pickle"),
        (b"GGUF\x03\x00\x00\x00\x10\x00", "GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"<!DOCTYPE html><html>", "not a safetensors file"),
        (b"", "cut short"),
        (b"\x10\x00\x00", "cut short"),
        (struct.pack("<Q", 900) + b"{}", "cut short"),
    ],
)
def test_a_file_of_another_kind_is_named_for_what_it_is(tmp_path: Path, start: bytes, words: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(start)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_header(path)
    assert str(path) in caught.value.message


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path: Path) -> None:
    text = json.dumps({"w": entry()}).encode()
    path = write_file(
        tmp_path / "f", text + b" " * (0x280 - len(text)), bytes(8)
    )  # little-endian 80 02, as pickles start
    assert path.read_bytes().startswith(b"\x80\x02")
    assert list(read_header(path).entries) == ["w"]


def test_a_missing_file_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        read_header(tmp_path / "absent")
