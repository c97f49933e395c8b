"""The order of windows is a function of (seed, position): no repeats, nothing missed, nothing remembered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import SampleOrder
from nextok.corpus.order import permute


@st.composite
def orders(draw):
    context = draw(st.integers(1, 12))
    n_tokens = context + draw(st.integers(1, 150))
    return SampleOrder(n_tokens, context, seed=draw(st.integers(0, 5))), n_tokens, context


@given(size=st.integers(1, 600), keys=st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8))
def test_a_permutation_takes_every_place_once(size, keys):
    assert sorted(permute(np.arange(size, dtype=np.uint64), size, keys).tolist()) == list(range(size))


def test_a_permutation_of_billions_needs_no_memory():
    size = 10**12 + 7
    images = permute(np.arange(1000, dtype=np.uint64), size, list(range(8)))
    assert len(set(images.tolist())) == 1000
    assert images.min() >= 0
    assert images.max() < size


def test_permutations_are_uniform_over_seeds():
    size, seeds = 6, 1000
    counts = np.zeros((size, size))
    for seed in range(seeds):
        order = SampleOrder(size + 1, 1, seed)
        counts[np.arange(size), order.starts(0, size)] += 1
    expected = seeds / size
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 60  # (6 - 1) ** 2 = 25 degrees of freedom: once in 10,000 sets of seeds


def epochs_of(order, n_tokens, context, count):
    """Splits the sequence where `epoch` says that an epoch begins."""
    samples = [order.starts(sample, 1)[0] for sample in range(count * (n_tokens // context + 1))]
    whole = [[] for _ in range(count)]
    for sample, start in enumerate(samples):
        if order.epoch(sample) < count:
            whole[int(order.epoch(sample))].append(int(start))
    return whole


@given(case=orders())
def test_an_epoch_is_the_non_overlapping_windows_from_an_offset_each_once(case):
    order, n_tokens, context = case
    for starts in epochs_of(order, n_tokens, context, 4):
        offset = min(starts)
        assert offset < context
        assert sorted(starts) == list(range(offset, n_tokens - context, context))


@given(case=orders(), pieces=st.lists(st.integers(1, 40), min_size=1, max_size=6), first=st.integers(0, 200))
def test_the_sequence_does_not_depend_on_batch_sizes(case, pieces, first):
    order, n_tokens, context = case
    whole = SampleOrder(n_tokens, context, order._seed).starts(first, sum(pieces))
    parts, place = [], first
    for piece in pieces:
        parts.append(order.starts(place, piece))
        place += piece
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert whole.dtype == np.int64


@given(case=orders(), stop=st.integers(0, 300))
def test_a_fresh_order_goes_on_where_another_stopped(case, stop):
    order, n_tokens, context = case
    whole = order.starts(0, stop + 30)
    assert SampleOrder(n_tokens, context, order._seed).starts(stop, 30).tolist() == whole[stop:].tolist()


def test_accumulation_and_resume_read_the_next_sample():
    order = SampleOrder(5000, 8, seed=3)
    in_one_go = order.starts(0, 10 * 4 * 2)
    micro_batches = [SampleOrder(5000, 8, seed=3).starts(2 * k, 2) for k in range(20, 40)]
    assert np.concatenate(micro_batches).tolist() == in_one_go[40:].tolist()


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_processes_share_an_epoch_without_overlap_or_gap(processes):
    order = SampleOrder(1000, 8, seed=1)
    epoch_samples = next(sample for sample in range(1000) if order.epoch(sample) >= 1)
    each = [
        [int(SampleOrder(1000, 8, seed=1).starts(sample, 1)[0]) for sample in range(rank, epoch_samples, processes)]
        for rank in range(processes)
    ]
    together = [start for starts in each for start in starts]
    assert len(set(together)) == len(together)
    assert sorted(together) == sorted(order.starts(0, epoch_samples).tolist())


@given(case=orders())
def test_no_window_reaches_outside(case):
    order, n_tokens, context = case
    starts = order.starts(0, 200)
    assert order.legal_windows == n_tokens - context
    assert starts.min() >= 0
    assert starts.max() + context + 1 <= n_tokens


@pytest.mark.parametrize(("n_tokens", "context"), [(50, 8), (49, 7), (20, 16), (9, 8), (30, 1)])
def test_over_epochs_every_legal_start_is_reached(n_tokens, context):
    order = SampleOrder(n_tokens, context, seed=0)
    assert set(order.starts(0, 1000).tolist()) == set(range(n_tokens - context))


def test_seeds_and_epochs_differ():
    first = SampleOrder(5000, 8, seed=0)
    assert first.starts(0, 50).tolist() != SampleOrder(5000, 8, seed=1).starts(0, 50).tolist()
    second_epoch = next(sample for sample in range(5000) if first.epoch(sample) >= 1)
    assert first.starts(0, 50).tolist() != first.starts(second_epoch, 50).tolist()


def test_blocks_join_seamlessly():
    order = SampleOrder(30_000, 2, seed=0)
    epoch_samples = next(sample for sample in range(14_000, 16_000) if order.epoch(sample) >= 1)
    assert len(set(order.starts(0, epoch_samples).tolist())) == epoch_samples > 2 * 4096


@given(case=orders(), sample=st.integers(0, 500))
def test_progress_grows_by_one_an_epoch(case, sample):
    order, *_ = case
    assert order.epoch(0) == 0
    assert order.epoch(sample) < order.epoch(sample + 1)


@pytest.mark.parametrize(("n_tokens", "context"), [(8, 8), (0, 1), (5, 0)])
def test_no_window_is_an_error(n_tokens, context):
    with pytest.raises(ValueError, match="no window"):
        SampleOrder(n_tokens, context, seed=0)


def test_a_negative_sample_is_an_error():
    with pytest.raises(ValueError, match="negative"):
        SampleOrder(10, 2, seed=0).starts(-1, 2)


def test_golden_order_so_that_old_runs_resume():
    """Other numbers here mean that a run started before the change goes on with other data."""
    assert SampleOrder(100, 8, seed=1337).starts(0, 6).tolist() == [11, 91, 19, 75, 59, 67]
