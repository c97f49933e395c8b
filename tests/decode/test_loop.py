import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.decode import SamplingConfig, distribution, draw, generate, log_softmax, stream
from nextok.errors import NonFiniteError, PromptError
from nextok.rng import uniform
from nextok.tokenizer import byte_tokenizer

from .tiny import ByteTokenizer, CharTokenizer, ScriptedDecoder, TinyDecoder, V

ABC = CharTokenizer("abcdefghijklm")
GREEDY = {"temperature": 0}


def ids_of(events):
    return [event.id for event in events]


def recompute(prompt, config, window):
    """Returns what a loop without a cache draws: it reads `window(ids)` from nothing for every token."""
    ids = list(prompt)
    for _ in range(config.max_new_tokens):
        logits = TinyDecoder().prefill(0, np.array(window(ids)))
        kept = distribution(logits, config, prompt, ids[len(prompt) :])
        ids.append(draw(kept, uniform(config.seed, "sample", 0, len(ids))))
    return ids[len(prompt) :]


@pytest.mark.parametrize(
    "options", [GREEDY, {"temperature": 1.3, "seed": 5}, {"top_p": 0.9, "repetition_penalty": 1.4}]
)
@pytest.mark.parametrize("n_prompt", [1, 3, 7, 8, 9, 30])
def test_slide_is_the_lesson_s_crop_and_recompute(n_prompt, options):
    prompt = [i % V for i in range(n_prompt)]
    config = SamplingConfig(max_new_tokens=20, overflow="slide", **options)
    assert ids_of(stream(TinyDecoder(), None, prompt, config)) == recompute(prompt, config, lambda ids: ids[-8:])


def test_cached_decoding_is_recomputation_and_feeds_each_token_once():
    decoder = TinyDecoder(context=32)
    config = SamplingConfig(max_new_tokens=20, seed=2)
    ids = ids_of(stream(decoder, None, [1, 2, 3], config))
    fresh = [TinyDecoder(context=32).prefill(0, np.array([1, 2, 3, *ids[:n]])) for n in range(20)]
    kept = [distribution(logits, config) for logits in fresh]
    assert ids == [draw(k, uniform(2, "sample", 0, 3 + n)) for n, k in enumerate(kept)]
    assert decoder.n_calls == {"prefill": 1, "step": 19}


@pytest.mark.parametrize("n_prompt", [1, 4, 8, 11])
def test_half_reads_half_the_context_again_when_it_is_full_and_goes_on(n_prompt):
    prompt = [i % V for i in range(n_prompt)]
    decoder, held = TinyDecoder(), min(n_prompt, 8) - 1
    config = SamplingConfig(max_new_tokens=20, overflow="half", **GREEDY)

    def window(ids):
        nonlocal held
        held = held + 1 if held < 8 else 4
        return ids[-held:]

    assert ids_of(stream(decoder, None, prompt, config)) == recompute(prompt, config, window)
    assert decoder.n_calls["prefill"] <= 6


@pytest.mark.parametrize("overflow", ["slide", "half"])
def test_a_context_of_one_token_goes_on(overflow):
    config = SamplingConfig(max_new_tokens=5, overflow=overflow)
    assert len(list(stream(TinyDecoder(context=1), None, [1, 2], config))) == 5


@pytest.mark.parametrize(
    ("n_prompt", "max_new_tokens", "n_new"), [(3, 20, 5), (3, 5, 5), (3, 4, 4), (7, 1, 1), (7, 9, 1)]
)
def test_stop_never_exceeds_the_context_and_says_length(n_prompt, max_new_tokens, n_new):
    config = SamplingConfig(max_new_tokens=max_new_tokens)
    events = list(stream(TinyDecoder(), None, list(range(n_prompt)), config))
    assert len(events) == n_new
    assert [event.finish_reason for event in events] == [None] * (n_new - 1) + ["length"]


def test_a_prompt_is_refused_by_the_call_itself():
    decoder = TinyDecoder()
    for prompt in ([], [V], [1] * 9, [1] * 8):
        with pytest.raises(PromptError):
            stream(decoder, None, prompt, SamplingConfig())
        with pytest.raises(PromptError):
            generate(decoder, None, [[1], prompt], SamplingConfig())
    assert decoder.n_calls == {"prefill": 0, "step": 0}


def test_greedy_is_the_argmax_every_time_whatever_the_seed():
    runs = [ids_of(stream(TinyDecoder(), ABC, [1, 2], SamplingConfig(seed=seed, **GREEDY))) for seed in range(3)]
    assert runs[0] == runs[1] == runs[2]


def test_what_is_generated_goes_on_from_where_it_stopped():
    decoder = TinyDecoder(context=40)
    whole = ids_of(stream(decoder, None, [1, 2, 3], SamplingConfig(max_new_tokens=20, seed=9)))
    half = SamplingConfig(max_new_tokens=10, seed=9)
    first = ids_of(stream(decoder, None, [1, 2, 3], half))
    assert first + ids_of(stream(decoder, None, [1, 2, 3, *first], half)) == whole


def test_a_seed_repeats_and_seeds_and_choices_differ():
    def ids(seed, choice=0):
        config = SamplingConfig(max_new_tokens=30, temperature=2.0, seed=seed)
        return ids_of(stream(TinyDecoder(context=40), None, [1, 2, 3], config, choice=choice))

    assert ids(1) == ids(1)
    assert len({tuple(ids(seed)) for seed in range(6)}) == 6
    assert len({tuple(ids(1, choice)) for choice in range(6)}) == 6


def test_the_choices_of_a_prompt_are_distinct_and_each_is_the_one_streamed():
    config = SamplingConfig(max_new_tokens=12, temperature=1.5, n=5, seed=3)
    prompts = [[1, 2], [3, 4, 5]]
    decoder = TinyDecoder(context=20)
    table = generate(decoder, ABC, prompts, config)
    assert [len(row) for row in table] == [5, 5]
    for prompt, row in zip(prompts, table, strict=True):
        assert len({generation.ids for generation in row}) == 5
        for choice, generation in enumerate(row):
            events = list(stream(TinyDecoder(context=20), ABC, prompt, config, choice=choice))
            assert generation.ids == tuple(ids_of(events))
            assert generation.text == "".join(event.text for event in events) == ABC.decode(generation.ids)
            assert generation.logprobs == tuple(event.logprob for event in events)
            assert generation.prompt_ids == tuple(prompt)
            assert generation.finish_reason == events[-1].finish_reason == "length"


def test_log_probabilities_are_those_of_one_pass_over_the_whole_text():
    decoder = TinyDecoder(context=40)
    [[generation]] = generate(decoder, None, [[1, 2, 3]], SamplingConfig(max_new_tokens=20, top_k=3))
    logits = decoder.prefill(0, np.array([*generation.prompt_ids, *generation.ids]), all_positions=True)
    wanted = [log_softmax(logits[2 + i])[id] for i, id in enumerate(generation.ids)]
    assert generation.logprobs == pytest.approx(wanted, abs=1e-5)


def test_top_log_probabilities_are_in_the_events_and_in_the_whole():
    config = SamplingConfig(max_new_tokens=4, top_logprobs=3, **GREEDY)
    [[generation]] = generate(TinyDecoder(), None, [[1]], config)
    events = list(stream(TinyDecoder(), None, [1], config))
    assert generation.top_logprobs == tuple(event.top_logprobs for event in events)
    for id, logprob, top in zip(generation.ids, generation.logprobs, generation.top_logprobs, strict=True):
        assert (len(top), top[0]) == (3, (id, pytest.approx(logprob)))


def test_no_new_tokens_and_no_prompts_are_served_without_the_model():
    decoder = TinyDecoder()
    config = SamplingConfig(max_new_tokens=0)
    assert list(stream(decoder, ABC, [1, 2], config)) == []
    [[generation]] = generate(decoder, ABC, [[1, 2]], config)
    assert (generation.text, generation.ids, generation.prompt_ids) == ("", (), (1, 2))
    assert generate(decoder, ABC, [], SamplingConfig()) == []
    assert decoder.n_calls == {"prefill": 0, "step": 0}


@pytest.mark.parametrize("n_taken", [0, 1, 4])
def test_a_consumer_that_stops_early_frees_the_slot(n_taken):
    decoder = TinyDecoder()
    events = stream(decoder, None, [1, 2], SamplingConfig(), slot=1)
    for _ in range(n_taken):
        next(events)
    assert bool(decoder.length(1)) == (n_taken > 0)
    events.close()
    assert decoder.lengths == [0, 0, 0]


def test_an_error_frees_the_slot():
    decoder = TinyDecoder()
    decoder._head_DV[:] = np.nan
    with pytest.raises(NonFiniteError):
        list(stream(decoder, None, [1], SamplingConfig()))
    with pytest.raises(NonFiniteError):
        generate(decoder, None, [[1], [2]], SamplingConfig())
    with pytest.raises(PromptError, match="leave no token"):
        list(stream(TinyDecoder(), None, [1], SamplingConfig(banned_ids=tuple(range(V)))))
    assert decoder.lengths == [0, 0, 0]


def test_several_streams_share_a_decoder_on_slots_of_their_own():
    decoder = TinyDecoder()
    config = SamplingConfig(max_new_tokens=5, seed=8)
    streams = [stream(decoder, None, [i, i], config, slot=i) for i in range(3)]
    interleaved = list(zip(*streams, strict=True))
    for i in range(3):
        assert [row[i].id for row in interleaved] == ids_of(stream(TinyDecoder(), None, [i, i], config))


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_stream_to_the_text_that_the_tokenizer_decodes(seed):
    tokenizer = byte_tokenizer()
    config = SamplingConfig(max_new_tokens=60, temperature=3.0, seed=seed, ignore_end=True, banned_ids=(256,))
    events = list(stream(TinyDecoder(context=64, vocab_size=257), tokenizer, tokenizer.encode("é"), config))
    assert "".join(event.text for event in events) == tokenizer.decode(ids_of(events))


@settings(deadline=None)
@given(
    st.text("abß日🙂", min_size=1, max_size=12),
    st.lists(st.text("abß日🙂", min_size=1, max_size=3), max_size=3),
    st.integers(1, 40),
)
def test_streamed_text_is_the_whole_text_before_the_first_stop(written, stops, max_new_tokens):
    script = [*written.encode(), 256]
    config = SamplingConfig(max_new_tokens=max_new_tokens, stop=tuple(stops), **GREEDY)
    events = list(stream(ScriptedDecoder(script, vocab_size=257), ByteTokenizer(), [65], config))
    [[whole]] = generate(ScriptedDecoder(script, vocab_size=257), ByteTokenizer(), [[65]], config)
    text = "".join(event.text for event in events)
    assert text == whole.text
    complete = bytes(script[:-1][:max_new_tokens]).decode(errors="replace")
    assert complete.startswith(text)
    assert all(stop not in text for stop in stops)
    found = any(stop in complete for stop in stops)
    assert found or text == complete
    ended = len(script) <= max_new_tokens
    assert [event.finish_reason for event in events] == [None] * (len(events) - 1) + [
        "stop" if found or ended else "length"
    ]
