"""What the slots hold is known exactly, kept as long as it is of use, and never read twice."""

import numpy as np
import pytest

from nextok.decode.prefixes import Prefixes, common_prefix

from .tiny import TinyDecoder


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.fixture
def decoder() -> TinyDecoder:
    return TinyDecoder(n_slots=3)


@pytest.fixture
def prefixes(decoder: TinyDecoder) -> Prefixes:
    """Returns three slots that hold 1 2 3 4 5, 1 2 9 and nothing."""
    prefixes = Prefixes(decoder, (0, 1, 2))
    prefixes.read(0, ids(1, 2, 3))
    prefixes.read(1, ids(1, 2))
    prefixes.step([1, 0], [9, 4])
    prefixes.read(0, ids(5))
    return prefixes


def test_the_record_is_what_the_decoder_holds(prefixes: Prefixes, decoder: TinyDecoder) -> None:
    assert [prefixes.held(slot).tolist() for slot in range(3)] == decoder.ids == [[1, 2, 3, 4, 5], [1, 2, 9], []]
    prefixes.keep(0, ids(1, 2, 7))
    prefixes.extend(2, ids(1, 2, 9, 9))
    prefixes.forget(1)
    assert [prefixes.held(slot).tolist() for slot in range(3)] == decoder.ids == [[1, 2], [], [1, 2, 9]]


@pytest.mark.parametrize(
    ("wanted", "shared"),
    [
        (ids(1, 2, 3, 4, 5, 6), 5),
        (ids(1, 2, 3, 4, 5), 4),  # the last one is run again for its logits
        (ids(1, 2, 3), 2),
        (ids(1, 2, 4, 4, 5), 2),
        (ids(1), 0),
        (ids(2, 1), 0),
    ],
)
def test_what_is_shared_is_the_common_beginning_without_the_last_id(
    prefixes: Prefixes, wanted: np.ndarray, shared: int
) -> None:
    assert prefixes.shared(0, wanted) == shared
    assert prefixes.shared(2, wanted) == 0


def test_a_slot_keeps_what_it_shares_and_drops_the_rest(prefixes: Prefixes, decoder: TinyDecoder) -> None:
    assert prefixes.keep(0, ids(1, 2, 3, 8)) == 3
    assert prefixes.keep(1, ids(8, 1)) == 0
    assert decoder.ids == [[1, 2, 3], [], []]


def test_the_best_slot_loses_least(prefixes: Prefixes) -> None:
    assert prefixes.best([2, 1, 0], ids(1, 2, 3, 4, 5, 6)) == 0
    assert prefixes.best([2, 0, 1], ids(1, 2, 9, 1)) == 1
    assert prefixes.best([1, 2, 0], ids(7, 7)) == 1  # nothing shared: the first, which was used longest ago
    assert prefixes.best([2, 1], ids(1, 2, 3, 4, 5, 6)) == 2  # a busy one shares most: copied to the first
    prefixes.read(0, ids(6, 7))
    assert prefixes.best([2, 0], ids(1, 2, 3, 9)) == 2  # three kept for four lost is no bargain while another is there
    assert prefixes.best([0], ids(1, 2, 3, 9)) == 0


def test_a_slot_takes_over_what_another_holds_more(prefixes: Prefixes, decoder: TinyDecoder) -> None:
    wanted = ids(1, 2, 3, 4, 0)
    assert prefixes.keep(1, wanted) == 2
    assert prefixes.extend(1, wanted) == 2
    assert decoder.ids[1] == [1, 2, 3, 4]
    assert prefixes.extend(1, wanted) == 0
    np.testing.assert_array_equal(prefixes.step([1], [0])[0], TinyDecoder().prefill(0, wanted))


def test_without_reuse_everything_is_read(decoder: TinyDecoder) -> None:
    prefixes = Prefixes(decoder, (0, 1), reuse=False)
    prefixes.read(0, ids(1, 2, 3))
    assert prefixes.extend(1, ids(1, 2, 3, 4)) == prefixes.keep(0, ids(1, 2, 3, 4)) == 0
    assert decoder.ids == [[], [], []]


def test_what_lay_in_a_slot_before_is_not_taken_for_something_known(decoder: TinyDecoder) -> None:
    decoder.prefill(1, ids(5, 6))
    prefixes = Prefixes(decoder, (1, 2))
    assert prefixes.held(1).tolist() == []
    prefixes.keep(1, ids(5, 6, 7))
    prefixes.read(1, ids(5, 6, 7))
    assert decoder.ids[1] == [5, 6, 7]


def test_a_refused_read_leaves_the_record_true(prefixes: Prefixes, decoder: TinyDecoder) -> None:
    with pytest.raises(Exception, match="do not fit"):
        prefixes.read(0, ids(1, 2, 3, 4))
    assert prefixes.held(0).tolist() == decoder.ids[0]


def test_common_prefix_by_hand():
    for one, other, size in (([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 4], 2), ([], [1], 0), ([2], [1], 0)):
        assert common_prefix(np.array(one, np.int64), np.array(other, np.int64)) == size
