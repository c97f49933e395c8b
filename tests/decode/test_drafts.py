import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.decode import ModelDrafter, NgramDrafter, SamplingConfig, stream
from nextok.decode.chooser import Chooser
from nextok.decode.drafts import Drafter, agreement
from nextok.errors import ConfigError
from nextok.rng import uniform

from .tiny import Cycle, TinyDecoder


def chooser(ids, vocab_size=13, constraint=None, **options):
    config = SamplingConfig(**options)
    return Chooser(np.array(ids, np.int64), config, vocab_size=vocab_size, end=None, constraint=constraint)


@pytest.mark.parametrize(
    ("ids", "most", "proposed"),
    [
        ([1, 2, 3, 4, 1, 2], 2, [3, 4]),
        ([1, 2, 3, 4, 1, 2], 9, [3, 4, 1, 2, 3, 4, 1, 2, 3]),
        ([1, 2, 3, 1, 2, 4, 1, 2], 1, [4]),  # the latest of places that agree as long
        ([9, 1, 2, 3, 8, 1, 2, 4, 9, 1, 2], 1, [3]),  # the longest agreement before the latest
        ([1, 2, 3, 8, 2, 4, 7, 2], 1, []),  # one id alone says nothing
        ([5, 5, 5, 5, 5, 5], 2, [5, 5]),
        ([1, 2, 3, 4], 3, []),
        ([7], 3, []),
    ],
)
def test_ngrams_by_hand(ids, most, proposed):
    assert NgramDrafter().propose(chooser(ids), most).tolist() == proposed


def test_how_much_must_agree_is_an_option():
    ids = [1, 2, 3, 8, 2, 4, 7, 2]
    assert NgramDrafter(least=1).propose(chooser(ids), 1).tolist() == [4]
    assert NgramDrafter(least=1, most=1).propose(chooser(ids), 1).tolist() == [4]
    assert NgramDrafter(least=3).propose(chooser([1, 2, 3, 1, 2]), 1).tolist() == []


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 4))
def test_what_ngrams_propose_has_followed_the_same_ids_before(ids, least, most):
    proposed = NgramDrafter(least=least, most=4).propose(chooser(ids), most).tolist()
    if proposed:
        assert len(proposed) == most
        read, whole = ids[-least:] + proposed, ids + proposed
        assert any(whole[i : i + len(read)] == read for i in range(len(ids) - least))
    else:
        assert all(ids[i : i + least] != ids[-least:] for i in range(len(ids) - least))


@pytest.mark.parametrize(("least", "most"), [(0, 2), (3, 2)])
def test_ngrams_of_no_length_are_refused(least, most):
    with pytest.raises(ConfigError, match="none"):
        NgramDrafter(least, most)


def test_drafters_meet_the_protocol():
    assert isinstance(NgramDrafter(), Drafter)
    assert isinstance(ModelDrafter(TinyDecoder()), Drafter)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 3}, {"seed": 4, "repetition_penalty": 1.5}])
def test_a_model_proposes_what_it_would_write_itself(options):
    written = [event.id for event in stream(TinyDecoder(), None, [1, 2], SamplingConfig(max_new_tokens=4, **options))]
    assert ModelDrafter(TinyDecoder()).propose(chooser([1, 2], **options), 4).tolist() == written


def test_a_model_reads_only_what_it_does_not_hold():
    decoder = TinyDecoder()
    drafter = ModelDrafter(decoder)
    proposed = drafter.propose(chooser([1, 2, 3]), 3).tolist()
    assert (decoder.n_prefilled, decoder.n_calls["step"]) == (3, 2)
    again = drafter.propose(chooser([1, 2, 3, *proposed[:2]]), 3)
    assert decoder.n_prefilled == 4  # the last id, since logits come from reading
    fresh = ModelDrafter(TinyDecoder()).propose(chooser([1, 2, 3, *proposed[:2]]), 3)
    # The number of a draw is that of its position, so the same text gives the same guess.
    assert again.tolist() == fresh.tolist()
    wrong = (proposed[0] + 1) % 13
    assert (
        drafter.propose(chooser([1, 2, 3, wrong]), 3).tolist()
        == ModelDrafter(TinyDecoder()).propose(chooser([1, 2, 3, wrong]), 3).tolist()
    )


@pytest.mark.parametrize("n_ids", range(1, 30))
def test_a_smaller_context_still_gives_guesses(n_ids):
    drafter = ModelDrafter(TinyDecoder(context=8))
    for start in range(max(1, n_ids - 5), n_ids + 1):
        proposed = drafter.propose(chooser([i % 13 for i in range(start)]), 3)
        assert 1 <= proposed.size <= 3
    assert ModelDrafter(TinyDecoder(context=1)).propose(chooser([1, 2, 3]), 3).size == 1


def test_a_model_guesses_within_the_constraint():
    assert ModelDrafter(TinyDecoder()).propose(chooser([1, 2], constraint=Cycle(13)), 4).tolist() == [0, 1, 2, 3]
    done = Cycle(13, can_end_after=2, most=2)
    assert ModelDrafter(TinyDecoder()).propose(chooser([1, 2], constraint=done), 4).tolist() == [0, 1]


def test_a_model_without_all_ids_is_refused_and_one_with_more_is_not():
    with pytest.raises(ConfigError, match="13 ids, the model 14"):
        ModelDrafter(TinyDecoder()).propose(chooser([1], vocab_size=14), 1)
    assert ModelDrafter(TinyDecoder()).propose(chooser([1], vocab_size=5), 4).max() < 5


def test_release_empties_the_slot():
    decoder = TinyDecoder()
    drafter = ModelDrafter(decoder, slot=1)
    drafter.propose(chooser([1, 2]), 3)
    assert decoder.lengths[1] > 0
    drafter.release()
    assert decoder.lengths == [0, 0, 0]


def test_agreement_by_hand():
    same = np.array([0.5, 0.3, 0.2])
    assert agreement(same, same) == pytest.approx((1, 1))
    # Cumulative 0.5, 1 and 0.25, 0.75, 1: they overlap on 0 to 0.25 and 0.5 to 0.75.
    assert agreement(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])) == pytest.approx((0.5, 0.75))


@given(st.integers(0, 1000))
def test_agreement_is_how_often_two_draws_with_one_number_agree_and_never_above_the_best(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6), 2)
    shared, best = agreement(p, q)
    assert shared <= best + 1e-12
    numbers = [uniform(seed, "sample", 0, i) for i in range(2000)]
    agreeing = np.searchsorted(np.cumsum(p), numbers) == np.searchsorted(np.cumsum(q), numbers)
    assert agreeing.mean() == pytest.approx(shared, abs=0.06)
