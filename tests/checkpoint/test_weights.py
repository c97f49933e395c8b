"""Weights: the round trip, agreement with the safetensors library both ways, tying, bfloat16, cut files, memory."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nextok.checkpoint import TensorSpec, map_weights, read_weight_shapes, read_weights, stream_weights, write_weights
from nextok.errors import CheckpointError, DiskError

DTYPES = ["f8", "i8", "u8", "f4", "i4", "u4", "f2", "i2", "u2", "i1", "u1", "?"]
ARRAYS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda name: name != "__metadata__"),
    hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    max_size=4,
)


@pytest.fixture
def library() -> Any:
    return safetensors.numpy


def same(left: Any, right: Any) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@settings(deadline=None)
@given(arrays=ARRAYS)
def test_what_is_written_comes_back_bit_for_bit(
    arrays: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.safetensors"
    write_weights(path, arrays)
    back = read_weights(path)
    assert back.keys() == arrays.keys()
    assert all(same(back[name], arrays[name]) for name in arrays)
    assert {name: spec.shape for name, spec in read_weight_shapes(path).items()} == {
        n: a.shape for n, a in arrays.items()
    }


@settings(deadline=None)
@given(arrays=ARRAYS)
def test_the_safetensors_library_reads_what_we_write(
    arrays: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "ours.safetensors"
    write_weights(path, arrays)
    theirs = safetensors.numpy.load_file(path)
    assert theirs.keys() == arrays.keys()
    assert all(same(theirs[name], arrays[name]) for name in arrays)


def test_we_read_what_the_safetensors_library_writes(tmp_path: Path, library: Any) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([True, False]),
        "c": np.zeros((0, 4), "f2"),
    }
    library.save_file(arrays, tmp_path / "f")
    back = read_weights(tmp_path / "f")
    assert all(same(back[name], arrays[name]) for name in arrays)
    assert read_weight_shapes(tmp_path / "f")["a"] == TensorSpec((2, 3), "F32") == ((2, 3), "F32")


def test_the_metadata_says_pt_as_transformers_asks_and_keeps_what_is_given(tmp_path: Path, library: Any) -> None:
    write_weights(tmp_path / "f", {"a": np.zeros(1)}, {"origin": "nextok"})
    with library.safe_open(tmp_path / "f", "np") as file:
        assert file.metadata() == {"format": "pt", "origin": "nextok"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0, dtype="f4").reshape(3, 4).T,
        np.arange(12.0, dtype="f4")[::-2],
        np.asfortranarray(np.arange(6, dtype="i8").reshape(2, 3)),
        np.broadcast_to(np.float32(3), (2, 2)),
        np.arange(4, dtype=">f4"),
    ],
)
def test_the_layout_in_memory_does_not_matter(tmp_path: Path, array: Any) -> None:
    write_weights(tmp_path / "f", {"a": array})
    np.testing.assert_array_equal(read_weights(tmp_path / "f")["a"], array)


def test_tied_arrays_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    embedding_VD = np.arange(4096, dtype=np.float32).reshape(64, 64)
    write_weights(tmp_path / "one", {"embedding": embedding_VD})
    write_weights(tmp_path / "f", {"embedding": embedding_VD, "head": embedding_VD.view(), "other": np.ones(3)})
    back = read_weights(tmp_path / "f")
    assert back["head"] is back["embedding"]
    np.testing.assert_array_equal(back["head"], embedding_VD)
    assert (tmp_path / "f").stat().st_size < (tmp_path / "one").stat().st_size + 200
    assert read_weight_shapes(tmp_path / "f")["head"] == ((64, 64), "F32")


def test_tied_arrays_follow_the_convention_of_the_safetensors_library(tmp_path: Path) -> None:
    torch_side = pytest.importorskip("safetensors.torch")
    torch = pytest.importorskip("torch")
    model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(5, 3), "head": torch.nn.Linear(3, 5, bias=False)})
    model["head"].weight = model["embedding"].weight
    torch_side.save_model(model, tmp_path / "theirs")
    back = read_weights(tmp_path / "theirs")
    assert back["head.weight"] is back["embedding.weight"]
    write_weights(tmp_path / "ours", {name: t.numpy() for name, t in model.state_dict().items()})
    assert torch_side.load_model(model, tmp_path / "ours") == (set(), [])


def test_equal_arrays_and_overlapping_views_are_not_tied(tmp_path: Path) -> None:
    square = np.arange(9.0).reshape(3, 3)
    arrays = {"a": square, "copy": square.copy(), "transposed": square.T, "part": square[:2], "bits": square.view("i8")}
    write_weights(tmp_path / "f", arrays)
    back = dict(read_weights(tmp_path / "f"))
    assert len({id(array) for array in back.values()}) == len(arrays)
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    torch_side = pytest.importorskip("safetensors.torch")
    torch = pytest.importorskip("torch")
    bits = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(256, 256)
    torch_side.save_file({"w": bits, "none": bits[:0].contiguous()}, tmp_path / "f")
    back = read_weights(tmp_path / "f")
    expected = bits.float().numpy()
    assert back["w"].dtype == back["none"].dtype == np.float32
    assert back["w"].tobytes() == expected.tobytes()
    assert read_weight_shapes(tmp_path / "f")["w"] == ((256, 256), "BF16")


def test_arrays_of_a_file_with_odd_offsets_are_aligned(tmp_path: Path) -> None:
    table = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}'
    )
    (tmp_path / "f").write_bytes(len(table).to_bytes(8, "little") + table + b"\x01" + np.float32(2.5).tobytes())
    back = read_weights(tmp_path / "f")
    assert back["b"].flags.aligned
    assert back["b"][0] == 2.5


def test_writing_to_a_read_array_never_changes_the_file(tmp_path: Path) -> None:
    write_weights(tmp_path / "f", {"a": np.ones(4)})
    read_weights(tmp_path / "f")["a"][:] = 7
    assert read_weights(tmp_path / "f")["a"].tolist() == [1, 1, 1, 1]


def test_arrays_of_a_file_that_is_replaced_keep_their_values(tmp_path: Path) -> None:
    write_weights(tmp_path / "f", {"a": np.ones(4)})
    old = read_weights(tmp_path / "f")
    write_weights(tmp_path / "f", {"a": np.zeros(4)})
    assert old["a"].tolist() == [1, 1, 1, 1]


def test_arrays_are_read_when_asked_for_and_let_go_when_dropped(tmp_path: Path) -> None:
    write_weights(tmp_path / "f", {"a": np.zeros(4), "b": np.zeros(2, np.int8)})
    back = read_weights(tmp_path / "f")
    assert (list(back), len(back), "a" in back, "c" in back) == (["a", "b"], 2, True, False)
    first = back["a"]
    first += 7
    assert back["a"] is first
    del first
    assert back["a"].tolist() == [0, 0, 0, 0]
    with pytest.raises(KeyError):
        back["c"]


def test_a_file_cut_while_it_is_read_is_an_error_and_no_crash(tmp_path: Path) -> None:
    write_weights(tmp_path / "f", {"a": np.ones(100_000)})
    back = read_weights(tmp_path / "f")
    os.truncate(tmp_path / "f", 5000)
    with pytest.raises(CheckpointError, match="cut short while it was read"):
        back["a"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are listed as Linux does it")
def test_a_file_of_many_tensors_is_one_open_file_and_closed_when_dropped(tmp_path: Path) -> None:
    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    write_weights(tmp_path / "f", {str(i): np.full(3, i) for i in range(500)})
    before = open_files()
    back = read_weights(tmp_path / "f")
    arrays = dict(back)
    assert open_files() == before + 1
    del back
    assert open_files() == before
    assert arrays["499"].tolist() == [499] * 3


def test_a_stream_of_arrays_makes_the_file_that_all_at_once_make(tmp_path: Path) -> None:
    arrays = {
        "w": np.arange(6, dtype=np.float64).reshape(2, 3).T,
        "b": np.ones(3, np.float16),
        "none": np.empty((0, 2)),
    }
    specs = {name: TensorSpec(array.shape, "F32") for name, array in arrays.items()}
    stream_weights(tmp_path / "streamed", specs, iter(arrays.items()))
    write_weights(tmp_path / "whole", {name: array.astype(np.float32) for name, array in arrays.items()})
    assert (tmp_path / "streamed").read_bytes() == (tmp_path / "whole").read_bytes()


A, B = ("a", np.zeros(2)), ("b", np.zeros(3))


@pytest.mark.parametrize("given", [[], [A], [B, A], [A, ("b", np.zeros(2))], [A, B, B]])
def test_a_stream_that_is_not_what_was_announced_leaves_no_file(tmp_path: Path, given: Any) -> None:
    specs = {"a": TensorSpec((2,), "F32"), "b": TensorSpec((3,), "F32")}
    with pytest.raises(AssertionError, match=r"came"):
        stream_weights(tmp_path / "f", specs, iter(given))
    assert not list(tmp_path.iterdir())


@settings(deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(cut: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.safetensors"
    write_weights(path, {"a": np.ones(100, np.float32)})
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(CheckpointError, match=r"cut\.safetensors is cut short"):
        read_weights(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_weights(tmp_path / "f", {"a": np.ones(2)})
    with pytest.raises(TypeError):
        write_weights(tmp_path / "f", {"a": np.zeros(2), "b": np.array([object()])})
    assert read_weights(tmp_path / "f")["a"].tolist() == [1, 1]
    assert [item.name for item in tmp_path.iterdir()] == ["f"]


def test_a_place_that_cannot_be_written_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        write_weights(tmp_path / "file" / "f", {"a": np.ones(2)})


MEASURE = """
import sys
from pathlib import Path
import numpy as np
from nextok.checkpoint import read_weights, write_weights
from nextok.machine import peak_memory_bytes
path, MiB = Path(sys.argv[1]), 2**20
arrays = {str(i): np.full((1024, 1024), i, np.float32) for i in range(16)}
before = peak_memory_bytes()
write_weights(path, arrays)
print((peak_memory_bytes() - before) / MiB)
del arrays
arrays = read_weights(path)
kept = [np.zeros((1024, 1024), np.float32) for _ in range(16)]
for name in arrays:
    kept[int(name)][:] = arrays[name]
print((peak_memory_bytes() - before) / MiB)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident size is measured as Linux counts it")
def test_writing_and_reading_64_mib_need_no_second_copy(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, tmp_path / "f"], capture_output=True, text=True, check=True)
    writing_MiB, reading_MiB = map(float, done.stdout.split())
    assert writing_MiB < 8
    assert reading_MiB < 8  # over the 64 MiB that the arrays take: one array of 4 MiB


def test_a_mapped_file_is_the_same_and_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / "w"
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.arange(5, dtype=np.uint8),
        "c": np.empty((0, 2)),
    }
    write_weights(path, arrays, {"kind": "x"})
    mapped, metadata = map_weights(path)
    assert metadata["kind"] == "x"
    assert sorted(mapped) == ["a", "b"]
    np.testing.assert_array_equal(mapped["a"], arrays["a"])
    mapped["a"][:] = 7
    np.testing.assert_array_equal(map_weights(path)[0]["a"], arrays["a"])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError):
        map_weights(path)
