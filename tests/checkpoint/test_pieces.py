"""Pieces of arrays: joined they are the arrays, and torch's own safetensors storage reads and writes the same files."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as torch_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from nextok.checkpoint import JoinedArrays, Piece, rows_of, write_pieces, write_weights
from nextok.errors import CheckpointError


def cut(array: np.ndarray, writers: int) -> list[Piece]:
    """As torch.chunk cuts: equal runs of rows, of which the last may be short or empty."""
    size = -(-len(array) // writers)
    return [Piece(array[rank * size : (rank + 1) * size], min(rank * size, len(array))) for rank in range(writers)]


def write(folder: Path, arrays: dict[str, np.ndarray], writers: int) -> list[Path]:
    paths = [folder / f"weights-{rank + 1:05d}-of-{writers:05d}.safetensors" for rank in range(writers)]
    for rank, path in enumerate(paths):
        write_pieces(path, {name: cut(array, writers)[rank] for name, array in arrays.items()})
    return paths


ARRAYS = {
    "matrix": np.arange(35, dtype=np.float32).reshape(7, 5),
    "vector": np.arange(3, dtype=np.float32),
    "cube": np.arange(24, dtype=np.float32).reshape(4, 3, 2),
}


@pytest.mark.parametrize("writers", [1, 2, 4, 5])
def test_joined_pieces_are_the_arrays(tmp_path: Path, writers: int) -> None:
    joined = JoinedArrays(write(tmp_path, ARRAYS, writers))
    assert set(joined) == set(ARRAYS) and len(joined) == 3
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(joined[name], array)
        assert name in joined and joined.shape(name) == array.shape


@given(rows=st.integers(1, 9), writers=st.integers(1, 5), ends=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_any_run_of_rows_is_read_as_from_one_file(
    tmp_path_factory: pytest.TempPathFactory, rows: int, writers: int, ends: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    array = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    first, last = sorted(min(end, rows) for end in ends)
    joined = JoinedArrays(write(folder, {"a": array}, writers))
    for arrays in (joined, {"a": array}):
        shape, found = rows_of(arrays, "a", first, last)
        assert shape == (rows, 2)
        np.testing.assert_array_equal(found, array[first:last])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_what_was_written_in_pieces(tmp_path: Path) -> None:
    write(tmp_path, ARRAYS, 3)
    state = {name: torch.zeros(array.shape) for name, array in ARRAYS.items()}
    reader = torch_checkpoint.HuggingFaceStorageReader(str(tmp_path))
    torch_checkpoint.load(state, storage_reader=reader, no_dist=True)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(state[name].numpy(), array)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_torch_wrote_is_read(tmp_path: Path) -> None:
    writer = torch_checkpoint.HuggingFaceStorageWriter(str(tmp_path), save_distributed=True)
    state = {name: torch.from_numpy(array) for name, array in ARRAYS.items()}
    torch_checkpoint.save(state, storage_writer=writer, no_dist=True)
    joined = JoinedArrays(sorted(tmp_path.glob("*.safetensors")))
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(joined[name], array)


def test_a_missing_piece_is_named(tmp_path: Path) -> None:
    paths = write(tmp_path, {"matrix": ARRAYS["matrix"]}, 3)
    with pytest.raises(CheckpointError, match=re.escape("no whole matrix: rows 3 to 5 are missing")):
        JoinedArrays([paths[0], paths[2]])


def test_a_file_that_does_not_say_where_its_pieces_belong_is_refused(tmp_path: Path) -> None:
    write_weights(tmp_path / "weights-00001-of-00001.safetensors", ARRAYS)
    with pytest.raises(CheckpointError, match="does not say which part"):
        JoinedArrays([tmp_path / "weights-00001-of-00001.safetensors"])
    with pytest.raises(CheckpointError, match="does not say which rows of matrix"):
        bad = tmp_path / "a.safetensors"
        write_weights(bad, ARRAYS, {"DCP_SHARDING_INFO": '{"matrix": {"saved_offsets": [0, 2]}}'})
        JoinedArrays([bad])
