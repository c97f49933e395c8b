"""Continuations side by side: each gets what it gets alone, whoever comes, goes, reads or fails beside it."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.decode import Batch, BatchStats, Continuation, Event, Generation, SamplingConfig, generate
from nextok.errors import ConfigError, NextokError, NonFiniteError, PromptError

from .tiny import TinyDecoder, V


def drain(batch):
    """Runs the batch to its end; returns the ids of each continuation, in order of their first token."""
    ids = {}
    while batch.busy:
        for continuation, event in batch.step():
            ids.setdefault(continuation, []).append(event.id)
    return ids


def run_alone(prompt, config, *, choice=0, context=8) -> Generation:
    """Returns what the plain loop makes, which knows neither slots, nor chunks, nor prefixes."""
    decoder = TinyDecoder(context=context, n_slots=1)
    one = Continuation(prompt, config, None, context=context, vocab_size=V, choice=choice)
    while one.finish_reason is None:
        window = one.window(decoder.length(0))
        if window is None:
            logits = decoder.step([0], [one.last_id])[0]
        else:
            decoder.release(0)
            logits = decoder.prefill(0, window)
        one.accept(logits, decoder.length(0))
    return one.generation()


def alone(prompt, config):
    return list(run_alone(prompt, config).ids)


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
    assert decoder.most_at_once <= n_slots
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
    assert batch.stats.waiting == batch.stats.running == 1
    ids = drain(batch)
    assert first not in ids and fourth not in ids
    assert ids[second] == alone([2, 3], config)[1:]  # its first token came before the drain
    assert ids[third] == alone([3, 4], config)
    batch.cancel(third)
    batch.close()
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


def test_a_step_that_fails_can_be_taken_again():
    decoder, config = TinyDecoder(n_slots=2), SamplingConfig(max_new_tokens=4, seed=1)
    step, decoder.step = decoder.step, lambda slots, ids: (_ for _ in ()).throw(PromptError("not now"))
    with Batch(decoder, None) as batch:
        ones = [batch.submit(prompt, config) for prompt in PROMPTS[:2]]
        batch.step()
        for _ in range(2):
            with pytest.raises(PromptError, match="not now"):
                batch.step()
        decoder.step = step
        drain(batch)
    assert [list(one.generation().ids) for one in ones] == [alone(prompt, config) for prompt in PROMPTS[:2]]


# --- the law of batching: whatever comes, goes and reads, each is alone


@dataclass(eq=False)
class Request:
    """A continuation, with what the batch has told of it."""

    prompt: list[int]
    config: SamplingConfig
    choice: int
    continuation: Continuation
    events: list[Event] = field(default_factory=list)
    cancelled: bool = False

    def check(self, context: int) -> None:
        """Checks that it is what it is alone, or the beginning of it where it was cancelled."""
        wanted = run_alone(self.prompt, self.config, choice=self.choice, context=context)
        if not self.cancelled:
            assert self.continuation.generation() == wanted
        n = len(self.events)
        assert n == len(wanted.ids) or self.cancelled
        assert tuple(event.id for event in self.events) == wanted.ids[:n]
        assert tuple(event.logprob for event in self.events) == wanted.logprobs[:n]
        reasons = [event.finish_reason for event in self.events]
        assert reasons == ([None] * (len(wanted.ids) - 1) + [wanted.finish_reason])[:n]


def check_slots(batch: Batch, decoder: TinyDecoder, requests: list[Request]) -> None:
    """Checks that every slot is somebody's or free, that the record is true, and that the counts agree."""
    seats = [*batch._reading, *batch._running]
    assert sorted([*batch._free, *(seat.slot for seat in seats)]) == list(range(decoder.n_slots))
    assert [batch._prefixes.held(slot).tolist() for slot in range(decoder.n_slots)] == decoder.ids
    for seat in batch._reading:
        held = decoder.ids[seat.slot]
        assert held == seat.window[: len(held)].tolist() and len(held) < seat.window.size
    for seat in batch._running:
        held = decoder.ids[seat.slot]
        [request] = [each for each in requests if each.continuation is seat.continuation]
        text = [*request.prompt, *(event.id for event in request.events)]
        assert held == text[:-1][-len(held) :] and seat.continuation.finish_reason is None
    stats = batch.stats
    assert (stats.reading, stats.running) == (len(batch._reading), len(batch._running))
    assert batch.busy == bool(stats.waiting or seats)


# Two letters, so that beginnings are shared; up to beyond the contexts.
PROMPT = st.lists(st.integers(1, 2), min_size=1, max_size=11)
CONFIG = st.builds(
    SamplingConfig,
    max_new_tokens=st.integers(0, 12),
    temperature=st.sampled_from([0, 1.0]),
    seed=st.integers(0, 2),
    overflow=st.sampled_from(["stop", "slide", "half"]),
    banned_ids=st.sampled_from([(), tuple(range(3, V))]),
    top_logprobs=st.integers(0, 1),
)
ACTION = st.one_of(
    st.tuples(st.just("submit"), PROMPT, CONFIG, st.integers(0, 1)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("step"), st.integers(1, 4)),
)


@given(
    actions=st.lists(ACTION, max_size=25),
    n_slots=st.integers(1, 4),
    context=st.sampled_from([1, 2, 3, 8]),
    chunk=st.sampled_from([1, 2, 7, 1000]),
    reuse=st.booleans(),
)
def test_any_interleaving_gives_each_what_it_gives_alone(actions, n_slots, context, chunk, reuse):
    decoder = TinyDecoder(context=context, n_slots=n_slots)
    requests: list[Request] = []

    def step() -> None:
        calls, prefilled = dict(decoder.n_calls), decoder.n_prefilled
        told = set()
        for continuation, event in batch.step():
            [request] = [each for each in requests if each.continuation is continuation]
            assert not request.cancelled and continuation not in told
            told.add(continuation)
            request.events.append(event)
        assert decoder.n_prefilled - prefilled <= chunk
        assert decoder.n_calls["step"] - calls["step"] <= 1
        ended = [one for one in told if one.finish_reason is not None]
        assert not batch._waiting or len(batch._free) <= len(ended)  # only who left in this very step leaves a gap
        check_slots(batch, decoder, requests)

    with Batch(decoder, None, chunk=chunk, reuse=reuse) as batch:
        for action, *arguments in actions:
            if action == "submit":
                prompt, config, choice = arguments
                try:
                    one = batch.submit(prompt, config, choice=choice)
                except PromptError:
                    assert config.overflow == "stop" and len(prompt) + min(1, config.max_new_tokens) > context
                else:
                    requests.append(Request(prompt, config, choice, one))
            elif action == "cancel" and requests:
                request = requests[arguments[0] % len(requests)]
                request.cancelled = request.cancelled or request.continuation.finish_reason is None
                batch.cancel(request.continuation)
                check_slots(batch, decoder, requests)
            elif action == "step":
                for _ in range(arguments[0]):
                    step()
        while batch.busy:
            step()
        stats = batch.stats
    assert decoder.lengths == [0] * n_slots
    assert stats.tokens_drawn == sum(len(request.events) for request in requests)
    assert reuse or stats.prefix_tokens_reused == decoder.n_copied == 0
    for request in requests:
        request.check(context)


@pytest.mark.parametrize("overflow", ["stop", "slide", "half"])
@pytest.mark.parametrize("n_prompt", [1, 6, 7, 8, 9, 17])
def test_at_the_edge_of_the_context_a_prompt_that_is_held_already_changes_nothing(n_prompt, overflow):
    prompt, config = [i % 5 for i in range(n_prompt)], SamplingConfig(max_new_tokens=10, overflow=overflow, seed=4)
    with Batch(TinyDecoder(n_slots=1), None) as batch:
        if overflow == "stop" and n_prompt >= 8:
            with pytest.raises(PromptError):
                batch.submit(prompt, config)
            return
        twice = [batch.submit(prompt, config) for _ in range(2)]
        ids = drain(batch)
    assert [ids[one] for one in twice] == [alone(prompt, config)] * 2


# --- turns


def firsts(batch: Batch) -> dict[Continuation, int]:
    """Returns the number of the step, from 1, that brought each continuation its first token."""
    found: dict[Continuation, int] = {}
    number = 0
    while batch.busy:
        number += 1
        for one, _ in batch.step():
            found.setdefault(one, number)
    return found


def test_a_long_prompt_holds_nobody_up_for_longer_than_a_chunk():
    decoder = TinyDecoder(context=64, n_slots=2)
    with Batch(decoder, None, chunk=4) as batch:
        running = batch.submit([1, 2], SamplingConfig(max_new_tokens=12))
        batch.step()
        long = batch.submit([3] * 42, SamplingConfig(max_new_tokens=1))
        for number in range(1, 11):
            before = decoder.n_prefilled
            assert [one for one, _ in batch.step()] == [running]
            assert decoder.n_prefilled == before + 4
            assert decoder.length(1) == 4 * number
        assert {one for one, _ in batch.step()} == {running, long}


def test_prompts_are_read_in_turns_and_short_ones_need_not_wait_for_long_ones():
    decoder = TinyDecoder(context=64, n_slots=3)
    with Batch(decoder, None, chunk=4) as batch:
        long, other, short = (
            batch.submit(ids, SamplingConfig(max_new_tokens=1)) for ids in ([1] * 20, [2] * 20, [3] * 3)
        )
        seen = []
        for _ in range(2):
            batch.step()
            seen.append(decoder.lengths)
        assert seen == [[4, 0, 0], [4, 4, 0]]
        found = firsts(batch)
    assert found == {short: 1, long: 8, other: 9}  # counted after those two steps


def test_several_short_prompts_share_a_step():
    decoder = TinyDecoder(n_slots=4)
    with Batch(decoder, None, chunk=8) as batch:
        ones = [batch.submit([i, i], SamplingConfig(max_new_tokens=1)) for i in range(1, 5)]
        assert [one for one, _ in batch.step()] == ones


@pytest.mark.parametrize("n_before", [0, 1, 2, 5])
def test_where_a_prompt_is_cut_does_not_depend_on_who_reads_beside_it(n_before):
    decoder, pieces = TinyDecoder(context=32, n_slots=6), []
    prefill = decoder.prefill
    decoder.prefill = lambda slot, ids_T: pieces.append((ids_T[0], len(ids_T))) or prefill(slot, ids_T)
    with Batch(decoder, None, chunk=8, reuse=False) as batch:
        for i in range(n_before):
            batch.submit([2] * (3 + i), SamplingConfig(max_new_tokens=2))
        batch.submit([1] * 20, SamplingConfig(max_new_tokens=1))
        drain(batch)
    assert [size for first, size in pieces if first == 1] == [8, 8, 4]


def test_slots_are_given_out_in_order_of_arrival():
    with Batch(TinyDecoder(n_slots=2), None, chunk=2) as batch:
        ones = [batch.submit([1 + i, 2], SamplingConfig(max_new_tokens=1 + i % 3)) for i in range(7)]
        found = firsts(batch)
    assert list(found) == ones


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_of_nothing_is_refused(chunk):
    with pytest.raises(ConfigError, match=f"chunk = {chunk} is not a whole number of at least 1"):
        Batch(TinyDecoder(), None, chunk=chunk)


# --- what was read before


def test_a_prompt_that_is_held_already_costs_one_id():
    decoder, config = TinyDecoder(context=16, n_slots=2), SamplingConfig(max_new_tokens=3, seed=5)
    with Batch(decoder, None) as batch:
        for _ in range(3):
            one = batch.submit([1, 2, 3, 4, 5, 6], config)
            drain(batch)
            assert one.generation() == run_alone([1, 2, 3, 4, 5, 6], config, context=16)
        assert batch.stats == BatchStats(
            waiting=0, reading=0, running=0, prefix_tokens_reused=10, prompt_tokens_read=8, tokens_drawn=9
        )
    assert decoder.n_prefilled == 6


def test_the_next_turn_of_a_talk_reads_what_is_new_and_two_talks_keep_apart():
    decoder, config = TinyDecoder(context=64, n_slots=2), SamplingConfig(max_new_tokens=3, seed=5)
    rules = [7, 8, 9]  # both talks begin alike
    talks = [[*rules, 1, 1, 1, 1], [*rules, 2, 2, 2, 2]]
    with Batch(decoder, None) as batch:
        for turn in range(4):
            for talk in talks:
                before = batch.stats.prompt_tokens_read
                one = batch.submit(talk, config)
                drain(batch)
                if turn:  # the last token of a turn was drawn, and not read
                    assert batch.stats.prompt_tokens_read - before == 1 + 2
                talk += [*one.generation().ids, 3, 4]


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("n_slots", [1, 2, 4])
def test_the_choices_of_a_prompt_read_it_together_once(n_slots, chunk):
    decoder, prompt = TinyDecoder(context=32, n_slots=n_slots), list(range(12))
    config = SamplingConfig(max_new_tokens=4, temperature=1.5, seed=3)
    with Batch(decoder, None, chunk=chunk) as batch:
        choices = [batch.submit(prompt, config, choice=choice) for choice in range(4)]
        drain(batch)
        stats = batch.stats
    wanted = [run_alone(prompt, config, choice=choice, context=32) for choice in range(4)]
    assert [one.generation() for one in choices] == wanted
    assert (stats.prompt_tokens_read, stats.prefix_tokens_reused) == (12 + 3, 3 * 11)
    assert decoder.n_prefilled <= 12


def test_prompts_with_one_beginning_read_it_once():
    decoder, shots = TinyDecoder(context=32, n_slots=3), list(range(10))
    questions = [[*shots, 11, 1], [*shots, 12, 2, 2], [*shots, 10]]
    config = SamplingConfig(max_new_tokens=2)
    found = generate(decoder, None, questions, config)
    assert [made for [made] in found] == [run_alone(ids, config, context=32) for ids in questions]
    assert decoder.n_prefilled + decoder.n_calls["step"] <= 10 + 2 + 3 + 1 + 2


def test_what_a_failed_one_left_behind_is_read_again():
    decoder = Poisoned(n_slots=1)
    config = SamplingConfig(max_new_tokens=1)
    with Batch(decoder, None) as batch:
        for _ in range(2):
            batch.submit([1, 2, 11], config)
            [(_, outcome)] = batch.step()
            assert isinstance(outcome, NonFiniteError)
            assert decoder.lengths == [0]
        assert batch.stats.prefix_tokens_reused == 0
