import numpy as np
import pytest

from nextok.decode import SamplingConfig, distribution, draw
from nextok.decode.chooser import Chooser
from nextok.errors import PromptError
from nextok.rng import uniform

from .tiny import Cycle

LOGITS = np.log(np.array([0.5, 0.2, 0.1, 0.1, 0.1])).astype(np.float32)


def chooser(prompt=(0, 1), *, end=None, constraint=None, choice=0, **options):
    config = SamplingConfig(**{"temperature": 1.0, **options})
    return Chooser(np.array(prompt, np.int64), config, vocab_size=5, end=end, choice=choice, constraint=constraint)


def spiked(id):
    return np.eye(5, dtype=np.float32)[id] * 50


def test_a_choice_is_the_draw_of_its_number_from_its_distribution():
    one = chooser([0, 1], seed=7, choice=2, repetition_penalty=1.5)
    for n_new in range(5):
        chosen = one.choose(LOGITS)
        wanted = distribution(LOGITS, SamplingConfig(temperature=1.0, repetition_penalty=1.5), [0, 1], one.ids[2:])
        assert np.array_equal(chosen.kept.probabilities, wanted.probabilities)
        assert chosen.uniform == uniform(7, "sample", 2, 2 + n_new)
        assert chosen.id == draw(wanted, chosen.uniform)
        assert one.append(chosen.id) is False
        assert (one.n_new, one.ids[-1]) == (n_new + 1, chosen.id)


def test_choosing_changes_nothing_and_a_copy_goes_its_own_way():
    one = chooser(constraint=Cycle(5))
    for id in (0, 1):
        one.append(id)
    other = one.copy()
    assert one.choose(LOGITS).id == one.choose(LOGITS).id == other.choose(LOGITS).id == 2
    other.append(2)
    assert (one.ids.tolist(), other.ids.tolist(), other.n_new) == ([0, 1, 0, 1], [0, 1, 0, 1, 2], 3)
    assert (one.choose(LOGITS).id, other.choose(LOGITS).id) == (2, 3)


def test_the_prompt_is_never_written_to():
    prompt = np.array([0, 1])
    prompt.flags.writeable = False
    one = Chooser(prompt, SamplingConfig(), vocab_size=5, end=None)
    for id in (2, 3, 4):
        one.append(id)
    assert one.ids.tolist() == [0, 1, 2, 3, 4]


def test_stops_by_id_end_like_end_of_text_and_not_before_the_fewest_tokens():
    one = chooser(end=4, stop_ids=(3, 2), min_new_tokens=1)
    for id in (4, 3, 2):
        assert one.choose(spiked(id)).id in (0, 1)
    assert one.append(0) is False
    for id in (4, 3, 2):
        assert one.choose(spiked(id)).id == id
        assert one.copy().append(id) is True


def test_ignoring_the_end_leaves_stops_by_id():
    one = chooser(end=4, stop_ids=(3,), ignore_end=True)
    assert one.append(4) is False
    assert one.append(3) is True


def test_a_constraint_masks_before_everything_else():
    one = chooser(constraint=Cycle(5), top_k=1)
    assert one.choose(spiked(3)).id == 0
    assert one.choose(spiked(3)).kept.ids.tolist() == [0]


def test_end_of_text_may_come_where_the_constraint_lets_it():
    one = chooser(end=4, constraint=Cycle(4, can_end_after=2))
    assert one.choose(spiked(4)).id == 0
    one.append(0)
    assert one.choose(spiked(4)).id == 1
    one.append(1)
    assert one.choose(spiked(4)).id == 4
    assert one.choose(spiked(3)).id == 2  # nothing but end of text and what may follow
    assert one.append(4) is True


def test_end_of_text_waits_for_the_fewest_tokens_under_a_constraint_too():
    one = chooser(end=4, constraint=Cycle(4, can_end_after=0), min_new_tokens=1)
    assert one.choose(spiked(4)).id == 0
    one.append(0)
    assert one.choose(spiked(4)).id == 4


def test_without_end_of_text_a_whole_text_ends_where_the_model_leaves_the_constraint():
    one = chooser(constraint=Cycle(5, can_end_after=1))
    assert one.choose(spiked(3)).id == 0
    assert one.append(0) is False
    assert one.choose(spiked(3)).id == 3
    assert one.copy().append(1) is False
    assert one.append(3) is True


def test_a_text_that_ignores_the_end_never_leaves_its_constraint():
    for end in (4, None):
        one = chooser(end=end, constraint=Cycle(4, can_end_after=0), ignore_end=True)
        assert one.choose(spiked(4)).id == 0


def test_it_is_done_when_the_constraint_is():
    one = chooser(constraint=Cycle(5, can_end_after=2, most=2))
    assert not one.is_done
    one.append(0)
    assert not one.is_done
    one.append(1)
    assert one.is_done
    assert not chooser().is_done


def test_a_constraint_and_bans_that_leave_nothing_are_a_plain_error():
    with pytest.raises(PromptError, match="The constraint and the banned ids leave no token"):
        chooser(constraint=Cycle(5), banned_ids=(0,)).choose(LOGITS)


def test_possible_ids_are_those_before_the_first_that_cannot_follow():
    assert chooser().possible(np.array([1, 4, 5, 2])).tolist() == [1, 4]
    assert chooser(constraint=Cycle(5)).possible(np.array([0, 1, 3, 3])).tolist() == [0, 1]
