import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.decode import (
    ModelDrafter,
    NgramDrafter,
    SamplingConfig,
    Speculation,
    SpeculationConfig,
    generate,
    stream,
)
from nextok.errors import ConfigError, PromptError
from nextok.tokenizer import byte_tokenizer

from .tiny import CharTokenizer, TinyDecoder

ALWAYS = SpeculationConfig(rest_tokens=0)
LETTERS = CharTokenizer("abcdefghijkl", ends=True)
PROMPT = [1, 2, 3, 1, 2]


class Guesses:
    """Proposes what the text will be, or anything else, as a list of rights and wrongs says, over and over."""

    def __init__(self, text, rights):
        self.text, self.rights, self.n = list(text), rights, 0
        self.asked = []

    def propose(self, chooser, most):
        self.asked.append(most)
        right = self.text[chooser.ids.size :][:most]
        for i in range(len(right)):
            if not self.rights[self.n % len(self.rights)]:
                right[i] = (right[i] + 1) % 13
            self.n += 1
        return np.array(right, np.int64)

    def release(self):
        pass


def drafters():
    return [NgramDrafter(least=1), ModelDrafter(TinyDecoder(seed=1)), ModelDrafter(TinyDecoder(context=5))]


def plain(decoder, tokenizer, prompt, config, choice=0):
    return list(stream(decoder, tokenizer, prompt, config, choice=choice))


def same_events(found, wanted):
    found = list(found)
    assert [(event.id, event.text, event.finish_reason) for event in found] == [
        (event.id, event.text, event.finish_reason) for event in wanted
    ]
    assert [event.logprob for event in found] == pytest.approx([event.logprob for event in wanted], abs=1e-5)
    assert [[id for id, _ in event.top_logprobs] for event in found] == [
        [id for id, _ in event.top_logprobs] for event in wanted
    ]


OPTIONS = [
    {"temperature": 0},
    {"seed": 5},
    {"temperature": 1.5, "top_k": 5, "top_p": 0.9, "min_p": 0.01},
    {"temperature": 0, "repetition_penalty": 1.3},
    {"temperature": 0, "frequency_penalty": 0.7, "presence_penalty": 0.4},
    {"stop": ("ab", "c"), "min_new_tokens": 2},
    {"stop_ids": (3, 5)},
    {"temperature": 0, "banned_ids": (2,), "logit_bias": ((4, 2.0),), "top_logprobs": 3},
    {"ignore_end": True},
]


@pytest.mark.parametrize("overflow", ["stop", "slide", "half"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_the_text_is_the_text_without_guesses_whatever_the_options(options, overflow):
    for seed in range(3):
        config = SamplingConfig(max_new_tokens=20, overflow=overflow, **options)
        wanted = plain(TinyDecoder(seed=seed, context=14), LETTERS, PROMPT, config)
        for drafter in drafters():
            decoder = TinyDecoder(seed=seed, context=14)
            run = Speculation(decoder, LETTERS, drafter, ALWAYS)
            same_events(run.stream(PROMPT, config), wanted)
            assert decoder.lengths == [0, 0, 0]


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(2, 16),
    st.sampled_from(["stop", "slide", "half"]),
)
def test_guesses_right_or_wrong_change_nothing(seed, rights, n_drafts, context, overflow):
    config = SamplingConfig(seed=seed, max_new_tokens=18, overflow=overflow)
    wanted = plain(TinyDecoder(context=context), None, [1], config)
    guesses = Guesses([1, *(event.id for event in wanted)], rights)
    run = Speculation(TinyDecoder(context=context), None, guesses, SpeculationConfig(rest_tokens=0, n_drafts=n_drafts))
    same_events(run.stream([1], config), wanted)
    assert all(most <= n_drafts for most in guesses.asked)


def test_right_guesses_save_passes_and_wrong_ones_cost_none():
    config = SamplingConfig(temperature=0, max_new_tokens=13)
    text = [1, *(event.id for event in plain(TinyDecoder(context=40), None, [1], config))]
    for rights, n_passes in (([True], 1 + 3), ([False], 13)):
        decoder = TinyDecoder(context=40)
        run = Speculation(decoder, None, Guesses(text, rights), ALWAYS)
        assert [event.id for event in run.stream([1], config)] == text[1:]
        assert sum(decoder.n_calls[each] for each in ("prefill", "step")) == n_passes
    assert (run.counts.n_accepted, run.counts.n_verified) == (0, 11)  # the last token is read alone


def test_counts_add_up():
    config = SamplingConfig(temperature=0, max_new_tokens=13)
    text = [1, *(event.id for event in plain(TinyDecoder(context=40), None, [1], config))]
    run = Speculation(TinyDecoder(context=40), None, Guesses(text, [True, True, False]), ALWAYS)
    for _ in range(2):
        list(run.stream([1], config))
    counts = run.counts
    assert 0 < counts.n_accepted < counts.n_drafted
    assert 2 * (1) + counts.n_plain + counts.n_verified + counts.n_accepted == 2 * 13


def test_a_model_that_guesses_for_itself_is_always_right():
    decoder = TinyDecoder(context=40)
    run = Speculation(decoder, None, ModelDrafter(TinyDecoder(context=40)), ALWAYS)
    list(run.stream([1, 2], SamplingConfig(seed=2, temperature=1.5, max_new_tokens=20)))
    assert run.counts.n_accepted == run.counts.n_drafted > 0


def test_drawn_text_follows_the_distribution_of_the_model():
    from scipy.stats import chi2

    decoder = TinyDecoder(vocab_size=5)
    pairs = np.zeros((5, 5))
    run = Speculation(decoder, None, ModelDrafter(TinyDecoder(vocab_size=5, seed=9)), ALWAYS)
    for seed in range(600):
        first, second, _ = (e.id for e in run.stream([1], SamplingConfig(seed=seed, temperature=1, max_new_tokens=3)))
        pairs[first, second] += 1

    def softmax(logits):
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    wanted = np.zeros((5, 5))
    shares = softmax(decoder.prefill(0, np.array([1])))
    for first in range(5):
        wanted[first] = 600 * shares[first] * softmax(decoder.step([0], [first])[0])
        decoder.truncate(0, 1)
    common = wanted > 5
    distance = ((pairs - wanted)[common] ** 2 / wanted[common]).sum()
    assert distance < chi2.ppf(0.999, common.sum())


def test_several_choices_of_several_prompts_are_those_of_generate():
    config = SamplingConfig(n=3, seed=1, max_new_tokens=8, overflow="half")
    prompts = [PROMPT, [4], [7, 7, 7]]
    wanted = generate(TinyDecoder(), LETTERS, prompts, config)
    found = Speculation(TinyDecoder(), LETTERS, NgramDrafter(least=1), ALWAYS).generate(prompts, config)
    assert [[each.ids for each in row] for row in found] == [[each.ids for each in row] for row in wanted]
    assert [[each.text for each in row] for row in found] == [[each.text for each in row] for row in wanted]


@pytest.mark.parametrize("regex", ["[ab]{3}c+", "(abc)*d"])
def test_grammars_are_followed_with_guesses(regex):
    tokenizer = byte_tokenizer()
    for seed in range(6):
        config = SamplingConfig(regex=regex, seed=seed, temperature=2, max_new_tokens=12)
        size = {"vocab_size": tokenizer.vocab_size, "context": 30}
        wanted = plain(TinyDecoder(**size), tokenizer, list(b"abcabc"), config)
        for drafter in (NgramDrafter(), ModelDrafter(TinyDecoder(**size, seed=1))):
            run = Speculation(TinyDecoder(**size), tokenizer, drafter, ALWAYS)
            same_events(run.stream(list(b"abcabc"), config), wanted)


def test_explanations_are_those_of_plain_decoding():
    config = SamplingConfig(seed=2, top_k=4, max_new_tokens=6)
    wanted = [event.explanation for event in stream(TinyDecoder(context=20), None, PROMPT, config, explain=True)]
    run = Speculation(TinyDecoder(context=20), None, NgramDrafter(least=1), ALWAYS)
    found = [event.explanation for event in run.stream(PROMPT, config, explain=True)]
    for one, other in zip(found, wanted, strict=True):
        assert (one.position, one.context_ids, one.uniform, one.id) == (
            other.position, other.context_ids, other.uniform, other.id,
        )  # fmt: skip
    assert run.counts.n_verified > 0


def test_an_error_comes_after_the_tokens_before_it():
    class Breaks(TinyDecoder):
        def prefill(self, slot, ids_T, *, all_positions=False):
            logits = super().prefill(slot, ids_T, all_positions=all_positions)
            if all_positions:
                logits[2:] = np.nan
            return logits

        def step(self, slots, ids):
            return super().step(slots, ids) * np.nan if self.length(0) == 5 else super().step(slots, ids)

    config = SamplingConfig(temperature=0, max_new_tokens=6)
    text = [1, *(event.id for event in plain(TinyDecoder(context=20), None, [1], config))]
    run = Speculation(Breaks(context=20), None, Guesses(text, [True]), ALWAYS)
    seen = []
    with pytest.raises(Exception, match="NaN"):
        for event in run.stream([1], config):
            seen.append(event.id)
    assert seen == text[1 : 1 + len(seen)]
    assert len(seen) >= 3


def test_a_prompt_is_refused_by_the_call_itself():
    run = Speculation(TinyDecoder(), None, NgramDrafter())
    with pytest.raises(PromptError):
        run.stream([99], SamplingConfig())
    with pytest.raises(PromptError):
        run.generate([[1], [99]], SamplingConfig())


def test_closing_early_frees_the_slots():
    decoder, guesser = TinyDecoder(), TinyDecoder(seed=1)
    events = Speculation(decoder, None, ModelDrafter(guesser), ALWAYS).stream([1, 2], SamplingConfig())
    for _ in range(3):
        next(events)
    assert decoder.lengths[0] > 0
    events.close()
    assert decoder.lengths == guesser.lengths == [0, 0, 0]


@pytest.mark.parametrize("options", [{"n_drafts": 0}, {"window": 0}, {"rest_tokens": -1}])
def test_options_out_of_range_are_refused(options):
    ((name, value),) = options.items()
    with pytest.raises(ConfigError, match=f"{name} = {value}"):
        SpeculationConfig(**options)


class Clock:
    """Time passes in calls of the decoder alone: a second for each, and more for every further id."""

    def __init__(self, seconds_per_id):
        self.now, self.seconds_per_id = 0.0, seconds_per_id

    def __call__(self):
        return self.now


class Timed(TinyDecoder):
    def __init__(self, clock, **options):
        super().__init__(**options)
        self.clock = clock

    def prefill(self, slot, ids_T, *, all_positions=False):
        self.clock.now += 1 + self.clock.seconds_per_id * (len(ids_T) - 1)
        return super().prefill(slot, ids_T, all_positions=all_positions)

    def step(self, slots, ids):
        self.clock.now += 1
        return super().step(slots, ids)


def run_timed(rights, seconds_per_id, n_tokens=300):
    config = SamplingConfig(temperature=0, max_new_tokens=n_tokens)
    text = [1, *(event.id for event in plain(TinyDecoder(context=400), None, [1], config))]
    clock = Clock(seconds_per_id)
    options = SpeculationConfig(window=8, rest_tokens=16)
    run = Speculation(Timed(clock, context=400), None, Guesses(text, rights), options, clock=clock)
    assert [event.id for event in run.stream([1], config)] == text[1:]
    return run.counts, clock.now


def test_guesses_that_pay_are_never_left():
    counts, seconds = run_timed([True], seconds_per_id=0.1)
    assert counts.n_rests == 0
    assert seconds < 0.4 * 300
    assert counts.n_plain <= 6  # those that measure, and the last token


@pytest.mark.parametrize(("rights", "seconds_per_id"), [([False], 0.1), ([True, False], 1.0)])
def test_guesses_that_do_not_pay_are_left_for_longer_and_longer_and_tried_again(rights, seconds_per_id):
    counts, seconds = run_timed(rights, seconds_per_id)
    # Windows of 8 passes with rests of 16, 32, 64, 128 tokens between them.
    assert 3 <= counts.n_rests <= 5
    assert counts.n_verified <= 8 * 5
    assert seconds < 1.4 * 300


def test_few_right_guesses_pay_where_reading_more_ids_is_free_and_not_where_it_is_dear():
    assert run_timed([True, False, False], seconds_per_id=0.0)[0].n_rests == 0
    assert run_timed([True, False, False], seconds_per_id=0.9)[0].n_rests > 0
