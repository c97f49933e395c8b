"""Ids come back as they went in, across files, or the file is refused; none ever wraps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import ShardRecord, ShardWriter, TokenSplit
from nextok.corpus.shards import check_array, id_dtype
from nextok.errors import CorpusError


def write(folder, ids, vocab_size=1000, shard_tokens=10, pieces=3):
    with ShardWriter(folder, "train", vocab_size, shard_tokens) as writer:
        for part in np.array_split(np.asarray(ids, dtype=np.int64), pieces):
            writer.append(part)
    return writer


def split_of(folder, ids, vocab_size=1000, **options):
    writer = write(folder, ids, vocab_size, **options)
    return TokenSplit(folder, "train", writer.shards, vocab_size=vocab_size, size_bytes=5 * len(ids))


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_the_stored_type_follows_from_the_vocabulary(vocab_size, dtype):
    assert id_dtype(vocab_size).name == dtype
    assert id_dtype(vocab_size).str[0] == "<"


@pytest.mark.parametrize(("vocab_size", "largest"), [(65_536, 65_535), (70_000, 66_000), (2**32, 2**32 - 1)])
def test_large_ids_come_back_as_they_went_in(tmp_path, vocab_size, largest):
    split = split_of(tmp_path, [0, largest, 1], vocab_size)
    assert split.tokens(0, 3).tolist() == [0, largest, 1]


@pytest.mark.parametrize(("vocab_size", "wrong"), [(50_257, 66_000), (65_536, 65_536), (10, 10), (10, -1)])
def test_an_id_outside_the_vocabulary_is_an_error_when_written(tmp_path, vocab_size, wrong):
    with pytest.raises(CorpusError, match=f"id {wrong} .*vocabulary of {vocab_size}"):
        write(tmp_path, [1, wrong, 2], vocab_size)


def test_an_id_outside_the_vocabulary_is_an_error_when_read(tmp_path):
    writer = write(tmp_path, [1, 900, 2, 3])
    split = TokenSplit(tmp_path, "train", writer.shards, vocab_size=900, size_bytes=4)
    assert split.tokens(2, 4).tolist() == [2, 3]
    with pytest.raises(CorpusError, match="id 900"):
        split.tokens(0, 2)


def test_ids_that_are_no_integers_are_refused(tmp_path):
    with ShardWriter(tmp_path, "train", 10) as writer, pytest.raises(TypeError, match="float64"):
        writer.append(np.array([1.5]))


@given(count=st.integers(1, 60), shard_tokens=st.integers(1, 20), pieces=st.integers(1, 9))
def test_shards_hold_all_ids_in_order_and_are_full_but_the_last(tmp_path_factory, count, shard_tokens, pieces):
    folder = tmp_path_factory.mktemp("shards")
    writer = write(folder, range(count), shard_tokens=shard_tokens, pieces=pieces)
    loaded = [np.load(folder / shard.name) for shard in writer.shards]
    assert np.concatenate(loaded).tolist() == list(range(count))
    assert [len(ids) for ids in loaded] == [shard.tokens for shard in writer.shards]
    assert all(shard.tokens == shard_tokens for shard in writer.shards[:-1])
    assert (writer.length, writer.largest_id) == (count, count - 1)


@given(count=st.integers(1, 60), shard_tokens=st.integers(1, 20), data=st.data())
def test_windows_are_slices_of_the_sequence_also_across_files(tmp_path_factory, count, shard_tokens, data):
    split = split_of(tmp_path_factory.mktemp("windows"), range(count), shard_tokens=shard_tokens)
    length = data.draw(st.integers(0, count))
    starts_B = data.draw(st.lists(st.integers(0, count - length), max_size=5))
    windows_BT = split.windows(np.array(starts_B, dtype=np.int64), length)
    assert windows_BT.dtype == np.int64
    assert windows_BT.shape == (len(starts_B), length)
    assert windows_BT.tolist() == [list(range(start, start + length)) for start in starts_B]


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (9, 2), (0, 11), (10, 1)])
def test_a_window_outside_the_split_is_an_error(tmp_path, start, length):
    with pytest.raises(IndexError):
        split_of(tmp_path, range(10)).windows([start], length)


def test_length_and_bytes_per_token(tmp_path):
    split = split_of(tmp_path, range(25))
    assert len(split) == 25
    assert split.bytes_per_token == 5.0


def test_an_empty_writer_leaves_no_file(tmp_path):
    assert write(tmp_path, []).shards == ()
    assert list(tmp_path.iterdir()) == []


def open_shard(folder, name="train-00000.npy", tokens=10, vocab_size=1000):
    TokenSplit(folder, "train", [ShardRecord(name=name, tokens=tokens)], vocab_size=vocab_size, size_bytes=1)


@pytest.mark.parametrize("change", ["cut", "cut to header", "empty", "longer", "missing", "other type", "no array"])
def test_a_shard_that_is_not_whole_is_refused_by_name(tmp_path, change):
    write(tmp_path, range(10))
    path = tmp_path / "train-00000.npy"
    content = path.read_bytes()
    changed = {
        "cut": content[:-1],
        "cut to header": content[:128],
        "empty": b"",
        "longer": content + b"x",
        "other type": content.replace(b"<u2", b"<i2"),
        "no array": bytes(len(content)),
    }
    path.unlink()
    if change != "missing":
        path.write_bytes(changed[change])
    with pytest.raises(CorpusError, match=r"train-00000\.npy"):
        open_shard(tmp_path)


def test_a_shard_of_no_tokens_is_refused_by_name(tmp_path):
    np.save(tmp_path / "train-00000.npy", np.empty(0, dtype="<u2"))
    with pytest.raises(CorpusError, match=r"train-00000\.npy.*empty"):
        open_shard(tmp_path, tokens=0)


def test_ids_of_the_wrong_type_for_the_vocabulary_are_refused(tmp_path):
    write(tmp_path, range(10))
    with pytest.raises(CorpusError):
        open_shard(tmp_path, vocab_size=70_000)


@pytest.mark.parametrize("length", [1, 9, 10**18])
def test_the_header_has_one_size_and_numpy_reads_it(tmp_path, length):
    write(tmp_path, range(10))
    from nextok.corpus.shards import _npy_header

    header = _npy_header(np.dtype("<u4"), length)
    assert len(header) == 128
    (tmp_path / "h.npy").write_bytes(header)
    with (tmp_path / "h.npy").open("rb") as stream:
        assert np.lib.format.read_magic(stream) == (1, 0)
        assert np.lib.format.read_array_header_1_0(stream) == ((length,), False, np.dtype("<u4"))
        assert stream.tell() == 128


def test_a_whole_array_passes(tmp_path):
    write(tmp_path, range(10))
    check_array(tmp_path / "train-00000.npy", np.dtype("<u2"), 10)
