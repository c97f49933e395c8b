"""One shift, checked lengths, and an evaluation that scores every target once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import Batches, ShardWriter, TokenSplit, check_length, evaluation_batches, shift
from nextok.errors import CorpusError


@pytest.fixture(scope="module")
def split_of(tmp_path_factory):
    """Returns a function that makes a split whose token at place i is i."""

    def make(count: int, shard_tokens: int = 50) -> TokenSplit:
        folder = tmp_path_factory.mktemp("split")
        with ShardWriter(folder, "train", 1000, shard_tokens) as writer:
            writer.append(np.arange(count))
        return TokenSplit(folder, "train", writer.shards, vocab_size=1000, size_bytes=count)

    return make


def test_targets_are_the_next_tokens_not_those_after(split_of):
    batch = Batches(split_of(200), context=8, seed=0).batch(first_sample=5, count=4)
    assert batch.inputs_BT.shape == batch.targets_BT.shape == (4, 8)
    assert batch.inputs_BT.dtype == batch.targets_BT.dtype == np.int64
    assert (batch.targets_BT == batch.inputs_BT + 1).all()
    assert (batch.inputs_BT[:, 0] == batch.starts_B).all()


def test_a_batch_is_a_function_of_seed_and_position(split_of):
    split = split_of(200)
    first, again = Batches(split, 8, seed=7), Batches(split, 8, seed=7)
    again.batch(0, 3)
    assert first.batch(10, 6).inputs_BT.tolist() == again.batch(10, 6).inputs_BT.tolist()
    assert first.batch(10, 6).inputs_BT.tolist() != Batches(split, 8, seed=8).batch(10, 6).inputs_BT.tolist()
    assert first.batch(12, 2).starts_B.tolist() == first.batch(10, 6).starts_B.tolist()[2:4]


@given(count=st.integers(2, 130), context=st.integers(1, 40), batch_size=st.integers(1, 7))
def test_evaluation_scores_every_target_once_in_order(split_of, count, context, batch_size):
    batches = list(evaluation_batches(split_of(count), context, batch_size))
    targets = np.concatenate([batch.targets_BT.ravel() for batch in batches])
    assert targets.tolist() == list(range(1, count))
    assert all((batch.targets_BT == batch.inputs_BT + 1).all() for batch in batches)
    assert all(len(batch.starts_B) <= batch_size for batch in batches)
    assert all(batch.inputs_BT.shape[1] == context for batch in batches[:-1])


@given(count=st.integers(2, 130), context=st.integers(1, 40), limit=st.integers(0, 12))
def test_a_limited_evaluation_takes_windows_of_the_full_one(split_of, count, context, limit):
    split = split_of(count)
    full = [start for batch in evaluation_batches(split, context, 4) for start in batch.starts_B.tolist()]
    some = [start for batch in evaluation_batches(split, context, 4, limit) for start in batch.starts_B.tolist()]
    assert len(some) == min(limit, len(full))
    assert set(some) <= set(full)
    assert len(set(some)) == len(some)


def test_a_limited_evaluation_is_spread_over_the_split(split_of):
    batches = evaluation_batches(split_of(101), context=10, batch_size=8, limit=4)
    assert [batch.starts_B.tolist() for batch in batches] == [[0, 20, 50, 70]]


def test_evaluation_of_one_token_is_an_error(split_of):
    with pytest.raises(ValueError, match="no target"):
        next(evaluation_batches(split_of(1), 4, 1))


def test_shift_of_a_hand_made_window():
    inputs_BT, targets_BT = shift(np.array([[5, 6, 7, 8]]))
    assert inputs_BT.tolist() == [[5, 6, 7]]
    assert targets_BT.tolist() == [[6, 7, 8]]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 1)])
def test_a_window_too_short_to_shift_is_an_error(shape):
    with pytest.raises(ValueError, match="at least 2"):
        shift(np.zeros(shape, dtype=np.int64))


@pytest.mark.parametrize("which", ["train", "validation"])
@pytest.mark.parametrize(("tokens", "suggested"), [(512, 256), (513, None), (300, 256), (18, 16), (17, 16), (2, 1)])
def test_a_short_split_is_refused_with_numbers_and_a_context_that_fits(which, tokens, suggested):
    if suggested is None:
        check_length(tokens, 512, which)
        return
    with pytest.raises(CorpusError, match=f"{which} split has {tokens} tokens; context 512 needs 513") as caught:
        check_length(tokens, 512, which)
    assert f"--context {suggested}." in caught.value.hint
    check_length(tokens, suggested, which)


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_split_without_a_target_needs_more_text(tokens):
    with pytest.raises(CorpusError) as caught:
        check_length(tokens, 8, "train")
    assert caught.value.hint == "Give more text."


def test_batches_of_a_short_split_are_refused_before_anything_is_read(split_of):
    with pytest.raises(CorpusError, match="train split has 8 tokens"):
        Batches(split_of(8), context=8, seed=0)
