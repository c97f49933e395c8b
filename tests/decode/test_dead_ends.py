import numpy as np
import pytest

from nextok.decode.constraint import Constraint
from nextok.decode.dead_ends import TooFar, WithoutDeadEnds, find_ending, is_ending

RANK = np.zeros(6, np.int64)


class Words:
    """A text is one of the words, spelled in ids; a word that ends in None can never be whole."""

    def __init__(self, *words, text=()):
        self.words, self.text = words, text

    @property
    def can_end(self):
        return self.text in self.words

    @property
    def is_done(self):
        return self.can_end and not self.allowed().any()

    def allowed(self):
        n = len(self.text)
        following = {w[n] for w in self.words if w[:n] == self.text and len(w) > n}
        return np.array([id in following for id in range(6)])

    def advance(self, id):
        assert self.allowed()[id]
        self.text = (*self.text, id)

    def n_possible(self, ids):
        for n, id in enumerate(ids):
            after = Words(*self.words, text=(*self.text, *ids[:n]))
            if not after.allowed()[id]:
                return n
        return len(ids)

    def copy(self):
        return Words(*self.words, text=self.text)


def allowed_of(constraint):
    return np.flatnonzero(constraint.allowed()).tolist()


def test_ids_that_lead_nowhere_are_left_out_however_far_ahead():
    words = Words((0, 1, 2, 3, None), (1, 2), (1, 3, 4, None), (4, 5, 5, 5, 5, 5))
    constraint = WithoutDeadEnds(words, RANK)
    assert allowed_of(words) == [0, 1, 4]
    assert allowed_of(constraint) == [1, 4]
    constraint.advance(1)
    assert allowed_of(constraint) == [2]
    constraint.advance(2)
    assert constraint.can_end and constraint.is_done


def test_a_text_that_can_go_on_to_nothing_is_done():
    constraint = WithoutDeadEnds(Words((1,), (1, 2, None)), RANK)
    constraint.advance(1)
    assert constraint.is_done


def test_a_copy_goes_its_own_way():
    one = WithoutDeadEnds(Words((1, 2), (1, 3, 4)), RANK)
    one.advance(1)
    other = one.copy()
    other.advance(3)
    assert (allowed_of(one), allowed_of(other)) == ([2, 3], [4])
    assert one.n_possible([3, 4, 5]) == 2
    spoken_to: Constraint = one
    assert isinstance(spoken_to, Constraint)


def test_an_ending_too_far_to_find_leaves_every_id():
    far = Words((0, *([1] * 400)), (2, 3, None))
    constraint = WithoutDeadEnds(far, RANK)
    assert allowed_of(constraint) == [0, 2]
    with pytest.raises(TooFar):
        find_ending(far, RANK)
    for id in (0, *([1] * 200)):
        constraint.advance(id)
    assert allowed_of(constraint) == [1]


def test_endings_by_hand():
    words = Words((1, 2, 3), (1, 4), (5, None))
    assert find_ending(words, RANK) in {(1, 2, 3), (1, 4)}
    assert find_ending(words, np.array([9, 9, 1, 9, 0, 9])) == (1, 4)
    assert find_ending(words, np.array([9, 9, 0, 9, 1, 9])) == (1, 2, 3)
    assert find_ending(Words((5, None)), RANK) is None
    assert find_ending(Words(()), RANK) == ()
    assert is_ending(words, (1, 4))
    assert not is_ending(words, (1, 2))
    assert not is_ending(words, (2,))
    assert not is_ending(words, ())
    assert words.text == ()
