import struct
import sys
import tracemalloc

import numpy as np
import pytest

from nextok.errors import CheckpointError, MissingExtraError
from nextok.interop.gguf_file import ENCODINGS, GgufFile

gguf = pytest.importorskip("gguf")


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, raw):
    return text(name) + struct.pack("<I", kind) + raw


def tensor(name, shape, kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)


@pytest.fixture
def open_file(tmp_path):
    """Returns what opens a file of the given keys, tensors and data."""

    def opened(keys=(), tensors=(), data=b"", *, magic=b"GGUF", version=3, n_keys=None, n_tensors=None):
        counts = (len(tensors) if n_tensors is None else n_tensors, len(keys) if n_keys is None else n_keys)
        raw = magic + struct.pack("<IQQ", version, *counts) + b"".join(keys) + b"".join(tensors)
        path = tmp_path / "a.gguf"
        path.write_bytes(raw + bytes(-len(raw) % 32) + data)
        return GgufFile(path)

    return opened


def test_values_of_every_type_come_back(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    values = {"u8": 200, "i8": -7, "u16": 60000, "i16": -300, "u32": 4_294_967_295, "i32": -5, "u64": 1 << 40}
    values |= {"i64": -(1 << 40), "f32": 1e-5, "f64": 1e-300, "bool": True, "text": "é", "texts": ["a", "", "日本"]}
    kinds = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32"}
    kinds |= {"u64": "uint64", "i64": "int64", "f32": "float32", "f64": "float64", "text": "string", "texts": "array"}
    for name, value in values.items():
        getattr(writer, f"add_{kinds.get(name, name)}")(name, value)
    writer.add_array("numbers", [1, 2, 3])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    metadata = GgufFile(tmp_path / "a.gguf").metadata
    assert metadata.pop("general.architecture") == "llama"
    assert metadata.pop("numbers").tolist() == [1, 2, 3]
    assert metadata == values
    assert metadata["bool"] is True


@pytest.mark.parametrize("kind", sorted(ENCODINGS))
def test_every_encoding_is_read_as_the_package_reads_it(kind, open_file, monkeypatch):
    encoding = ENCODINGS[kind]
    assert (encoding.block, encoding.size) == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[encoding.name]]
    shape = (6, 2 * encoding.block)
    drawn = np.random.default_rng(kind).integers(0, 256, (6, 2 * encoding.size), np.uint8)
    drawn &= 0x3F  # no half or float among the bytes is infinite or NaN
    monkeypatch.setattr("nextok.interop.gguf_file._PIECE_BLOCKS", 5)
    got = open_file((), [tensor("w", shape, kind)], drawn.tobytes()).read("w")
    expected = gguf.dequantize(drawn, gguf.GGMLQuantizationType[encoding.name])
    assert got.shape == shape
    assert np.array_equal(got, expected)
    assert got.dtype == (np.float16 if encoding.name == "F16" else np.float32)
    assert got.flags.writeable


def test_tensors_are_compared_byte_by_byte(open_file, monkeypatch):
    monkeypatch.setattr("nextok.interop.gguf_file._PIECE_BYTES", 16)
    data = np.arange(24, dtype=np.float32).reshape(3, 8)
    data[1] = data[0]
    data[2, :7] = data[0, :7]
    names = [tensor(name, (8,), 0, 32 * i) for i, name in enumerate("abc")]
    file = open_file((), names, data.tobytes())
    assert file.same_bytes("a", "b")
    assert not file.same_bytes("a", "c")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"magic": b"GGML"}, "is not a GGUF file"),
        ({"version": 1}, "of version 1"),
        ({"version": 3 << 24}, "big-endian"),
        ({"n_keys": 1 << 60}, "claims"),
        ({"n_tensors": 1 << 17}, "claims"),
        ({"n_keys": 9}, "cut short"),
        ({"keys": [key("a", 8, struct.pack("<Q", 1 << 50))]}, "a text claims"),
        ({"keys": [struct.pack("<Q", 1 << 63)]}, "a text claims"),
        ({"keys": [key("a", 9, struct.pack("<IQ", 8, 1 << 40))]}, "claims 1099511627776 texts"),
        ({"keys": [key("a", 9, struct.pack("<IQ", 4, 1 << 60))]}, "cut short"),
        ({"keys": [key("a", 9, struct.pack("<IQ", 0, (1 << 64) - 1))]}, "cut short"),
        ({"keys": [key("a", 9, struct.pack("<IQ", 9, 2))]}, "a list of the type 9"),
        ({"keys": [key("a" * 300, 0, b"1")]}, "a text claims 300 bytes"),
        ({"keys": [key("a", 99, b"")]}, "unknown type 99"),
        ({"keys": [key("a", 0, b"1"), key("a", 0, b"1")]}, "there twice"),
        ({"keys": [key("general.alignment", 4, struct.pack("<I", 0))]}, "general.alignment is 0"),
        ({"keys": [key("general.alignment", 8, text("32"))]}, "general.alignment is '32'"),
        ({"tensors": [tensor("w", (1,) * 5)]}, "has 5 axes"),
        ({"tensors": [tensor("w", (4,), 16)]}, "stored as IQ2_XXS"),
        ({"tensors": [tensor("w", (4,), 99)]}, "stored as type 99"),
        ({"tensors": [tensor("w", (48,), 8)], "data": bytes(100)}, "no whole blocks of Q8_0"),
        ({"tensors": [tensor("w", (4,))], "data": bytes(15)}, "ends inside the tensor 'w'"),
        ({"tensors": [tensor("w", (1 << 63, 1 << 63))], "data": bytes(16)}, "ends inside the tensor"),
        ({"tensors": [tensor("w", (4,), 0, (1 << 64) - 1)], "data": bytes(16)}, "ends inside the tensor"),
        ({"tensors": [tensor("w", (4,)), tensor("w", (4,))], "data": bytes(16)}, "there twice"),
    ],
)
def test_a_file_that_lies_ends_in_a_sentence_and_takes_no_memory(parts, words, open_file):
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=words):
            open_file(**parts)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="No such file"):
        GgufFile(tmp_path / "none.gguf")
    with pytest.raises(CheckpointError, match="directory"):
        GgufFile(tmp_path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.gguf").touch()
    with pytest.raises(CheckpointError, match="cut short"):
        GgufFile(tmp_path / "a.gguf")


def test_a_file_cut_after_it_was_opened_is_noticed(open_file):
    file = open_file((), [tensor("w", (1 << 16,))], bytes(1 << 18))
    with file.path.open("rb+") as stream:
        stream.truncate(file.path.stat().st_size - 1)
    with pytest.raises(CheckpointError, match="cut short while it was read"):
        file.read("w")


def test_without_the_package_floats_are_read_and_blocks_ask_for_it(open_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    tensors = [tensor("w", (4,)), tensor("q", (32,), 8, 32)]
    file = open_file((), tensors, bytes(66))
    assert file.read("w").tolist() == [0, 0, 0, 0]
    with pytest.raises(MissingExtraError, match="nextok\\[gguf\\]"):
        file.read("q")
