import numpy as np
import pytest

from nextok.decode import Continuation, SamplingConfig
from nextok.errors import ConfigError, PromptError

from .tiny import ByteTokenizer, CharTokenizer, Cycle

ABC = CharTokenizer("abcdef", ends=True)


def start(prompt=(0, 1), tokenizer=ABC, context=8, vocab_size=7, **options):
    return Continuation(prompt, SamplingConfig(**options), tokenizer, context=context, vocab_size=vocab_size)


def says(continuation, *ids):
    """Makes the continuation draw these ids; returns its events."""
    events = []
    for id in ids:
        logits = np.full(260, -50, np.float32)  # more rows than any tokenizer here
        logits[id] = 50
        events.append(continuation.accept(logits, 1))
    return events


def spell(continuation, text):
    return says(continuation, *text.encode())


def bytes_start(**options):
    return start([65], ByteTokenizer(), context=1000, vocab_size=257, **options)


@pytest.mark.parametrize("prompt", [[7], [-1], [0, 50_300], [2**40], [0, 1, -(2**40)]])
def test_an_id_outside_the_vocabulary_is_refused_with_its_place(prompt):
    with pytest.raises(PromptError, match=rf"id {prompt[-1]} at position {len(prompt) - 1}; .* ids 0 to 6"):
        start(prompt)


@pytest.mark.parametrize("prompt", ["ab", [1.0], [True], [[1, 2]], [[1], [1, 2]], [2**80], None])
def test_what_is_no_list_of_whole_numbers_is_refused(prompt):
    with pytest.raises(PromptError, match="one list of whole numbers"):
        start(prompt)


@pytest.mark.parametrize("prompt", [[1, 2], (1, 2), np.array([1, 2], np.uint16), np.array([1, 2], np.int32)])
def test_every_kind_of_integer_list_is_a_prompt(prompt):
    assert start(prompt, max_new_tokens=0).generation().prompt_ids == (1, 2)


def test_the_caller_s_prompt_is_copied():
    prompt = np.array([1, 2])
    continuation = start(prompt)
    prompt[:] = 0
    assert continuation.window(0).tolist() == [1, 2]


def test_an_empty_prompt_starts_from_end_of_text_and_says_so():
    assert start([], max_new_tokens=0).generation().prompt_ids == (6,)
    assert start([]).window(0).tolist() == [6]


@pytest.mark.parametrize("tokenizer", [CharTokenizer("abcdef"), None])
def test_an_empty_prompt_without_end_of_text_is_a_plain_error(tokenizer):
    with pytest.raises(PromptError, match="The prompt is empty"):
        start([], tokenizer)


def test_end_of_text_beyond_the_model_s_vocabulary_is_no_id_of_it():
    with pytest.raises(PromptError, match="The prompt is empty"):
        start([], vocab_size=6)
    start([1], vocab_size=6, min_new_tokens=3).accept(np.zeros(6, np.float32), 1)


@pytest.mark.parametrize(
    ("n_prompt", "max_new_tokens", "trouble"),
    [
        (9, 1, "cannot be read whole"),
        (9, 0, "cannot be read whole"),
        (8, 1, "no room for 1 new"),
        (8, 200, "no room for 200 new"),
    ],
)
def test_a_prompt_without_room_is_refused_with_both_counts_and_the_way_out(n_prompt, max_new_tokens, trouble):
    with pytest.raises(PromptError, match=rf"{n_prompt} tokens .* holds 8, .*{trouble}") as caught:
        start([1] * n_prompt, max_new_tokens=max_new_tokens)
    assert "--overflow slide" in caught.value.hint


@pytest.mark.parametrize(
    ("n_prompt", "max_new_tokens", "overflow"), [(8, 0, "stop"), (7, 99, "stop"), (99, 5, "slide"), (99, 5, "half")]
)
def test_a_prompt_that_fits_is_taken(n_prompt, max_new_tokens, overflow):
    start([1] * n_prompt, max_new_tokens=max_new_tokens, overflow=overflow)


def test_options_that_do_not_fit_the_vocabulary_are_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="banned_ids holds the id 7"):
        start(banned_ids=(7,))
    for name, value in (("stop", ("a",)), ("regex", "a"), ("json_schema", "{}")):
        with pytest.raises(ConfigError, match=f"{name} = .* needs a tokenizer"):
            start(tokenizer=None, **{name: value})


def test_rows_that_pad_the_vocabulary_are_never_drawn_nor_counted():
    logits = np.zeros(64, np.float32)
    logits[7:] = 100  # untrained rows, likelier than all others
    for seed in range(50):
        event = start(vocab_size=64, seed=seed, top_logprobs=64).accept(logits, 2)
        assert event.id < 7
        assert event.logprob == pytest.approx(-np.log(7))
        assert len(event.top_logprobs) == 7


def test_zero_new_tokens_is_finished_at_once():
    done = start(max_new_tokens=0).generation()
    assert (done.text, done.ids, done.logprobs, done.finish_reason) == ("", (), (), "length")


def test_end_of_text_ends_without_text_but_is_among_the_ids():
    continuation = start()
    events = says(continuation, 2, 6)
    assert [(event.text, event.finish_reason) for event in events] == [("c", None), ("", "stop")]
    assert continuation.generation().ids == (2, 6)
    assert continuation.generation().text == "c"


def test_ignoring_the_end_goes_on():
    continuation = start(ignore_end=True, max_new_tokens=3)
    assert [event.finish_reason for event in says(continuation, 6, 6, 1)] == [None, None, "length"]


def test_a_token_like_any_other_is_not_held_off():
    assert says(start(ignore_end=True, min_new_tokens=2, max_new_tokens=3), 6)[0].id == 6


def test_end_of_text_cannot_come_before_the_fewest_tokens():
    continuation = start(min_new_tokens=2)
    first, second, third = says(continuation, 6, 6, 6)
    assert 6 not in (first.id, second.id)
    assert (third.id, third.finish_reason) == (6, "stop")


def test_stops_by_id_end_without_text_and_with_what_was_held():
    continuation = bytes_start(stop=("STOP",), stop_ids=(33, 35))
    assert [event.text for event in spell(continuation, "aST")] == ["a", "", ""]
    assert [(event.text, event.finish_reason) for event in spell(continuation, "#")] == [("ST", "stop")]
    assert continuation.generation().ids == tuple(b"aST#")
    assert continuation.generation().text == "aST"


def test_a_stop_by_id_waits_for_the_fewest_tokens_and_needs_no_tokenizer():
    continuation = start(tokenizer=None, stop_ids=(3,), min_new_tokens=1, max_new_tokens=5)
    first, second = says(continuation, 3, 3)
    assert first.id != 3
    assert (second.id, second.finish_reason) == (3, "stop")


def test_a_constraint_ends_it_where_it_is_done_and_masks_until_then():
    continuation = Continuation(
        [0], SamplingConfig(), ABC, context=9, vocab_size=7, constraint=Cycle(7, can_end_after=3, most=3)
    )
    events = says(continuation, 5, 5, 5)
    assert [(event.id, event.text, event.finish_reason) for event in events] == [
        (0, "a", None), (1, "b", None), (2, "c", "stop"),
    ]  # fmt: skip


def test_a_constraint_that_is_done_from_the_start_draws_nothing():
    done = Continuation(
        [0], SamplingConfig(), ABC, context=9, vocab_size=7, constraint=Cycle(7, can_end_after=0, most=0)
    ).generation()
    assert (done.text, done.ids, done.finish_reason) == ("", (), "stop")


def test_a_stop_text_cannot_end_before_the_fewest_tokens():
    continuation = bytes_start(stop=("b",), min_new_tokens=3)
    events = spell(continuation, "abab")
    assert "".join(event.text for event in events) == "aba"
    assert [event.finish_reason for event in events] == [None, None, None, "stop"]


@pytest.mark.parametrize(
    ("written", "stop", "text", "reason"),
    [
        ("one, two", (), "one, two", "length"),
        ("one STOP", ("STOP",), "one ", "stop"),
        ("one STO", ("STOP",), "one STO", "length"),
        ("naïve…", ("ve",), "naï", "stop"),
        ("日本", (), "日本", "length"),
        ("x日", ("日",), "x", "stop"),
    ],
)
def test_text_is_released_as_it_becomes_certain(written, stop, text, reason):
    n = len(written.encode())
    continuation = bytes_start(stop=stop, max_new_tokens=n)
    events = []
    for byte in written.encode():
        events += says(continuation, byte)
        if continuation.finish_reason:
            break
    assert "".join(event.text for event in events) == continuation.generation().text == text
    assert [event.finish_reason for event in events if event.finish_reason] == [reason]
    assert events[-1].finish_reason == reason


def test_what_was_held_is_released_at_the_end_of_text_too():
    continuation = bytes_start(stop=("STOP",))
    assert [event.text for event in spell(continuation, "aST")] == ["a", "", ""]
    assert [(event.text, event.finish_reason) for event in says(continuation, 256)] == [("ST", "stop")]


def test_an_unfinished_character_becomes_one_replacement_at_the_end():
    continuation = bytes_start(max_new_tokens=2)
    assert [event.text for event in says(continuation, *"日".encode()[:2])] == ["", "\ufffd"]


def test_a_stop_text_that_the_vocabulary_cannot_spell_changes_nothing():
    continuation = start(stop=("Ω∞\n",), max_new_tokens=3)
    assert "".join(event.text for event in says(continuation, 0, 1, 2)) == "abc"


def test_without_a_tokenizer_there_are_ids_alone():
    continuation = start(tokenizer=None, vocab_size=260, max_new_tokens=2)
    assert [(event.id, event.text) for event in says(continuation, 3, 4)] == [(3, ""), (4, "")]


def test_the_window_is_whole_then_one_id_then_what_the_policy_keeps():
    for overflow, wanted in (("slide", list(range(12, 20))), ("half", list(range(16, 20)))):
        continuation = start(list(range(20)), None, vocab_size=20, overflow=overflow)
        assert continuation.window(0).tolist() == list(range(12, 20))
        assert continuation.window(7) is None
        assert continuation.window(8).tolist() == wanted
    assert start([1, 2], None, context=1, vocab_size=20, overflow="half").window(1).tolist() == [2]


def test_log_probabilities_are_those_of_the_model_whatever_the_options():
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float32))
    options = {"temperature": 0.1, "banned_ids": (0,), "top_k": 1, "repetition_penalty": 1.5, "top_logprobs": 2}
    event = start(tokenizer=None, vocab_size=5, **options).accept(logits, 2)
    assert event.id != 0
    assert event.logprob == pytest.approx(float(logits[event.id]), abs=1e-6)
    assert [id for id, _ in event.top_logprobs] == [0, 1]
    assert [value for _, value in event.top_logprobs] == pytest.approx(np.log([0.5, 0.25]).tolist(), abs=1e-6)
