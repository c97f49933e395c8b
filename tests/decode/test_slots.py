"""Slots: counted, checked before anything changes, the same for every decoder."""

import numpy as np
import pytest

from nextok.decode import Slots
from nextok.errors import PromptError


@pytest.fixture
def slots() -> Slots:
    slots = Slots(n_slots=3, context=8, vocab_size=50)
    slots._lengths = [5, 8, 0]
    return slots


def test_lengths_are_told_cut_and_emptied(slots: Slots) -> None:
    assert [slots.length(slot) for slot in range(3)] == [5, 8, 0]
    slots.truncate(1, 3)
    slots.release(0)
    assert [slots.length(slot) for slot in range(3)] == [0, 3, 0]
    with pytest.raises(AssertionError, match="slot 1 holds 3 tokens, not 4"):
        slots.truncate(1, 4)


def test_one_is_lengthened_with_what_another_holds() -> None:
    copied = []

    class Copying(Slots):
        def _copy_cache(self, source: int, target: int, positions: slice) -> None:
            copied.append((source, target, positions))

    slots = Copying(n_slots=3, context=8, vocab_size=50)
    slots._lengths = [5, 8, 0]
    slots.copy(0, 2, 3)
    slots.copy(1, 0, 8)
    slots.copy(1, 0, 8)
    assert copied == [(0, 2, slice(0, 3)), (1, 0, slice(5, 8)), (1, 0, slice(8, 8))]
    assert slots._lengths == [8, 8, 3]
    for length in (2, 9):  # what it holds is never cut, and nothing comes from beyond the other's end
        with pytest.raises(AssertionError, match=f"slot 2 has 3 tokens and slot 1 8, not {length}"):
            slots.copy(1, 2, length)


def test_a_decoder_that_cannot_copy_says_so_and_counts_nothing(slots: Slots) -> None:
    with pytest.raises(NotImplementedError):
        slots.copy(0, 2, 3)
    assert slots.length(2) == 0


@pytest.mark.parametrize("slot", [-1, 3])
def test_slot_that_is_not_there_is_refused(slots: Slots, slot: int) -> None:
    for use in (
        slots.length,
        slots.release,
        lambda slot: slots.truncate(slot, 0),
        lambda slot: slots.copy(slot, 0, 5),
        lambda slot: slots.copy(0, slot, 5),
    ):
        with pytest.raises(IndexError, match=f"no slot {slot}; the decoder has 3"):
            use(slot)


def test_room_is_checked_for_all_slots_together(slots: Slots) -> None:
    slots._check_room([0, 2], 3)
    with pytest.raises(PromptError, match="Slot 0 holds 5 tokens and was given 4 more; the context is 8"):
        slots._check_room([2, 0], 4)
    with pytest.raises(PromptError, match="was given 0 more"):
        slots._check_room([2], 0)
    with pytest.raises(AssertionError, match="named twice"):
        slots._check_room([0, 0], 1)


def test_ids_are_int64_of_the_vocabulary(slots: Slots) -> None:
    ids = slots._checked_ids([0, 49])
    assert ids.dtype == np.int64
    for wrong in (-1, 50):
        with pytest.raises(PromptError, match=f"Token id {wrong} is not in 0 to 49"):
            slots._checked_ids([3, wrong])
