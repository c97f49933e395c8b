import numpy as np
import pytest

from nextok.decode import Batch, Event, SamplingConfig, generate, stream
from nextok.errors import NextokError, NonFiniteError, PromptError

from .tiny import TinyDecoder, V


def drain(batch):
    """Runs the batch to its end; returns the ids of each continuation, in order of their first token."""
    ids = {}
    while batch.busy:
        for continuation, event in batch.step():
            ids.setdefault(continuation, []).append(event.id)
    return ids


def alone(prompt, config, **options):
    return [event.id for event in stream(TinyDecoder(), None, prompt, config, **options)]


PROMPTS = [[1, 2], [3, 4, 5, 6, 7], [8], [9, 10, 11], [1, 2], [12, 0, 12, 0]]


@pytest.mark.parametrize("n_slots", [1, 2, 3, 8])
@pytest.mark.parametrize("overflow", ["stop", "slide", "half"])
def test_a_ragged_batch_gives_each_what_it_gives_alone(n_slots, overflow):
    decoder = TinyDecoder(n_slots=n_slots)
    configs = [SamplingConfig(max_new_tokens=3 + 5 * (i % 3), seed=i, overflow=overflow) for i in range(len(PROMPTS))]
    with Batch(decoder, None) as batch:
        submitted = [batch.submit(prompt, config) for prompt, config in zip(PROMPTS, configs, strict=True)]
        ids = drain(batch)
    assert [ids[c] for c in submitted] == [alone(*pair) for pair in zip(PROMPTS, configs, strict=True)]
    assert decoder.most_at_once == min(n_slots, len(PROMPTS))
    assert decoder.lengths == [0] * n_slots


def test_one_that_comes_later_changes_nothing_and_enters_when_a_slot_is_free():
    config = SamplingConfig(max_new_tokens=5, seed=1)
    with Batch(TinyDecoder(n_slots=1), None) as batch:
        first = batch.submit([1, 2, 3], config)
        batch.step()
        second = batch.submit([4, 5], config)
        order = [continuation for _ in range(9) for continuation, _ in batch.step()]
        assert order == [first] * 4 + [second] * 5
        assert not batch.busy
    assert list(second.generation().ids) == alone([4, 5], config)


def test_a_seeded_draw_does_not_depend_on_neighbours_or_order():
    config = SamplingConfig(max_new_tokens=5, temperature=1.5, seed=42)
    wanted = alone([1, 2], config)
    noise = SamplingConfig(max_new_tokens=5, temperature=1.5, seed=7)
    for before, after in ((0, 0), (1, 0), (0, 2), (2, 2)):
        with Batch(TinyDecoder(n_slots=3), None) as batch:
            for i in range(before):
                batch.submit([3 + i], noise)
            ours = batch.submit([1, 2], config)
            for i in range(after):
                batch.submit([5 + i], noise)
            assert drain(batch)[ours] == wanted


def test_cancelling_frees_the_slot_for_the_next_and_leaves_the_others_alone():
    decoder = TinyDecoder(n_slots=2)
    config = SamplingConfig(max_new_tokens=5, seed=3)
    batch = Batch(decoder, None)
    first, second, third, fourth = (batch.submit([i, i + 1], config) for i in range(1, 5))
    batch.step()
    batch.cancel(first)
    batch.cancel(fourth)
    assert decoder.lengths.count(0) == 1
    ids = drain(batch)
    assert first not in ids and fourth not in ids
    assert ids[second] == alone([2, 3], config)[1:]  # its first token came before the drain
    assert ids[third] == alone([3, 4], config)
    batch.cancel(third)
    assert decoder.lengths == [0, 0]


def test_closing_releases_every_slot():
    decoder = TinyDecoder()
    with Batch(decoder, None) as batch:
        for prompt in PROMPTS:
            batch.submit(prompt, SamplingConfig())
        batch.step()
        assert all(decoder.lengths)
    assert not any(decoder.lengths)
    assert not batch.busy


def test_a_batch_keeps_to_the_slots_it_was_given():
    decoder = TinyDecoder(n_slots=3)
    decoder.prefill(1, np.array([1, 2]))
    with Batch(decoder, None, slots=(0, 2)) as batch:
        for prompt in PROMPTS:
            batch.submit(prompt, SamplingConfig(max_new_tokens=3))
        drain(batch)
    assert decoder.lengths == [0, 2, 0]


class Poisoned(TinyDecoder):
    """Answers NaN wherever the newest id is 11."""

    def _read(self, slot, id):
        logits = super()._read(slot, id)
        return logits * np.float32(np.nan) if id == 11 else logits


def test_the_error_of_one_is_its_own_outcome_and_the_others_go_on():
    decoder = Poisoned(n_slots=3)
    config = SamplingConfig(max_new_tokens=4, banned_ids=(11,), seed=2)
    nothing = SamplingConfig(banned_ids=tuple(range(V)))
    with Batch(decoder, None) as batch:
        good = batch.submit([1, 2], config)
        poisoned = batch.submit([11], config)
        impossible = batch.submit([3], nothing)
        outcomes = {good: [], poisoned: [], impossible: []}
        while batch.busy:
            for continuation, outcome in batch.step():
                outcomes[continuation].append(outcome)
                assert isinstance(outcome, Event | NextokError)
    assert [event.id for event in outcomes[good]] == alone([1, 2], config)
    assert [type(outcome) for outcome in outcomes[poisoned]] == [NonFiniteError]
    assert [type(outcome) for outcome in outcomes[impossible]] == [PromptError]
    assert decoder.lengths == [0, 0, 0]


def test_an_error_of_the_whole_step_is_raised_and_every_slot_is_released():
    decoder = TinyDecoder()
    decoder.step = lambda slots, ids: (_ for _ in ()).throw(RuntimeError("device lost"))
    with pytest.raises(RuntimeError, match="device lost"):
        generate(decoder, None, PROMPTS, SamplingConfig(max_new_tokens=3))
    assert decoder.lengths == [0, 0, 0]
