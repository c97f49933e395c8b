import dataclasses

import numpy as np
import pytest

from nextok.decode import Explanation, SamplingConfig, distribution, draw, stream
from nextok.decode.explain import explain_draw

from .tiny import TinyDecoder


def test_an_explanation_by_hand():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05])).astype(np.float32)
    options = SamplingConfig(temperature=1.0, banned_ids=(0,), top_k=2)
    kept = distribution(logits, options, explain=True)
    told = explain_draw(logits, kept, id=draw(kept, 0.9), uniform=0.9, position=7, context_ids=[3, 2])
    assert [(c.id, pytest.approx(c.probability, abs=1e-6)) for c in told.raw] == [
        (0, 0.5),
        (1, 0.3),
        (2, 0.15),
        (3, 0.05),
    ]
    assert [(c.id, pytest.approx(c.probability, abs=1e-6)) for c in told.final] == [(1, 2 / 3), (2, 1 / 3)]
    assert [(r.filter, r.count) for r in told.removals] == [("bans", 1), ("top_k", 1)]
    assert (told.id, told.uniform, told.position, told.context_ids, told.n_final) == (2, 0.9, 7, (3, 2), 2)


def test_asking_for_explanations_changes_no_token():
    options = SamplingConfig(max_new_tokens=12, top_k=5, top_p=0.9, banned_ids=(2,), seed=4, overflow="slide")
    plain = list(stream(TinyDecoder(), None, [1, 2, 3], options))
    told = list(stream(TinyDecoder(), None, [1, 2, 3], options, explain=True))
    assert [dataclasses.replace(event, explanation=None) for event in told] == plain
    assert all(event.explanation is None for event in plain)
    assert all(isinstance(event.explanation, Explanation) and event.explanation.id == event.id for event in told)


@pytest.mark.parametrize("overflow", ["slide", "half"])
def test_the_context_told_is_the_one_that_was_read(overflow):
    prompt = [1, 2, 3]
    options = SamplingConfig(max_new_tokens=15, temperature=0, overflow=overflow)
    events = list(stream(TinyDecoder(), None, prompt, options, explain=True))
    ids = [*prompt, *(event.id for event in events)]
    for event in events:
        told = event.explanation
        assert told.uniform is None
        assert ids[told.position] == event.id
        assert list(told.context_ids) == ids[max(0, told.position - len(told.context_ids)) : told.position]
        fresh = TinyDecoder()
        assert int(fresh.prefill(0, np.array(told.context_ids)).argmax()) == event.id


def test_the_likeliest_are_told_at_most_ten_of_a_large_vocabulary():
    event = next(stream(TinyDecoder(vocab_size=100), None, [1], SamplingConfig(top_k=50), explain=True))
    told = event.explanation
    assert len(told.raw) == len(told.final) == 10
    assert told.n_final == 50
    assert [c.probability for c in told.raw] == sorted((c.probability for c in told.raw), reverse=True)
    assert [(r.filter, r.count, len(r.examples)) for r in told.removals] == [("bans", 0, 0), ("top_k", 50, 5)]
