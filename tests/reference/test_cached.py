"""The NumPy decoder: what it gives is what the whole pass gives, and what it refuses leaves everything as it was."""

import numpy as np
import pytest

from nextok.decode import Decoder
from nextok.errors import InputError, ModelConfigError, PromptError
from nextok.reference import NumpyDecoder, logits
from nextok.spec import ModelConfig, count

IDS = [3, 1, 4, 1, 5, 9]


def whole_pass(config, weights, dialect, ids=IDS) -> np.ndarray:
    """Returns the logits `[T, V]` of one pass without a cache."""
    return logits(config, weights, np.array([ids]), dialect)[0]


def decoder_of(config, weights, dialect, n_slots: int = 1) -> NumpyDecoder:
    return NumpyDecoder(config, weights, n_slots, dialect)


@pytest.fixture
def decoder(gpt2) -> NumpyDecoder:
    return NumpyDecoder(*gpt2, n_slots=3)


# --- with a cache and without


@pytest.mark.parametrize("pieces", [[6], [1, 5], [3, 2, 1], [1] * 6])
def test_in_float64_pieces_give_the_logits_of_the_whole_pass(causal, pieces: list[int]) -> None:
    decoder, expected, start = decoder_of(*causal), whole_pass(*causal), 0
    for piece in pieces:
        ids_T = np.array(IDS[start : start + piece])
        exact = decoder._read(0, ids_T, last_only=False)  # before it is rounded to the protocol's float32
        np.testing.assert_allclose(exact, expected[start : start + piece], rtol=0, atol=1e-12)
        start += piece


def test_in_float32_every_step_gives_the_logits_of_the_whole_pass(causal) -> None:
    config, weights, dialect = causal
    single = {name: weight.astype(np.float32) for name, weight in weights.items()}
    expected, decoder = whole_pass(config, single, dialect), decoder_of(config, single, dialect)
    assert decoder._keys.dtype == decoder._values.dtype == np.float32
    np.testing.assert_allclose(decoder.prefill(0, IDS[:2]), expected[1], atol=1e-5)
    for position in range(2, 6):
        np.testing.assert_allclose(decoder.step([0], [IDS[position]])[0], expected[position], atol=1e-5)


def test_rows_at_different_places_go_on_as_each_would_alone(causal) -> None:
    prompts = {2: [7, 8], 0: [1], 1: [2, 3, 4]}
    together = decoder_of(*causal, n_slots=3)
    for slot, prompt in prompts.items():
        together.prefill(slot, prompt)
    for id in (5, 6):
        rows = together.step(list(prompts), [id] * 3)
        for row, prompt in zip(rows, prompts.values(), strict=True):
            prompt.append(id)
            np.testing.assert_allclose(row, whole_pass(*causal, prompt)[-1], atol=1e-6)


def test_after_forgetting_a_tail_or_all_it_goes_on_as_a_fresh_one(causal) -> None:
    decoder = decoder_of(*causal, n_slots=2)
    decoder.prefill(1, [8])
    decoder.prefill(0, IDS)
    decoder.truncate(0, 2)
    np.testing.assert_allclose(decoder.prefill(0, [7]), whole_pass(*causal, [*IDS[:2], 7])[-1], atol=1e-6)
    decoder.release(0)
    np.testing.assert_allclose(decoder.prefill(0, [6, 2]), whole_pass(*causal, [6, 2])[-1], atol=1e-6)
    np.testing.assert_allclose(decoder.step([1], [9])[0], whole_pass(*causal, [8, 9])[-1], atol=1e-6)


def test_a_slot_lengthened_by_copying_goes_on_as_one_that_read(causal) -> None:
    decoder = decoder_of(*causal, n_slots=3)
    decoder.prefill(0, IDS[:5])
    decoder.prefill(1, [*IDS[:2], 8])
    decoder.truncate(1, 2)
    decoder.copy(0, 1, 4)
    decoder.copy(1, 2, 3)
    for slot, held in ((1, 4), (2, 3), (0, 5)):
        np.testing.assert_allclose(decoder.prefill(slot, [7]), whole_pass(*causal, [*IDS[:held], 7])[-1], atol=1e-6)


# --- the protocol


def test_it_is_a_decoder(decoder: NumpyDecoder) -> None:
    assert isinstance(decoder, Decoder)
    assert (decoder.context, decoder.vocab_size, decoder.n_slots) == (6, 11, 3)


def test_answers_are_float32_rows_of_logits(decoder: NumpyDecoder) -> None:
    last = decoder.prefill(0, np.array([1, 2, 3], dtype=np.int32))
    every = decoder.prefill(1, [1, 2, 3], all_positions=True)
    rows = decoder.step([1, 0], [4, 4])
    assert (last.shape, every.shape, rows.shape) == ((11,), (3, 11), (2, 11))
    assert last.dtype == every.dtype == rows.dtype == np.float32
    np.testing.assert_allclose(every[-1], last, atol=1e-6)


def test_slots_count_what_they_hold(decoder: NumpyDecoder) -> None:
    decoder.prefill(1, [1, 2, 3])
    decoder.step([2, 1], [4, 5])
    assert [decoder.length(slot) for slot in range(3)] == [0, 4, 1]
    decoder.truncate(1, 2)
    decoder.release(2)
    decoder.release(0)
    assert [decoder.length(slot) for slot in range(3)] == [0, 2, 0]


def test_memory_is_taken_once_and_is_what_the_count_says(gpt2, decoder: NumpyDecoder) -> None:
    float64_over_float32 = 2
    expected = count(gpt2[0]).kv_cache_bytes_per_token * 6 * 3 * float64_over_float32
    assert decoder._keys.nbytes + decoder._values.nbytes == expected
    before = decoder._keys
    decoder.prefill(0, IDS)
    assert decoder._keys is before


# --- what it refuses


@pytest.mark.parametrize(
    ("held", "ids", "said"),
    [
        ([], [], "Slot 0 holds 0 tokens and was given 0 more; the context is 6."),
        ([], [1] * 7, "Slot 0 holds 0 tokens and was given 7 more; the context is 6."),
        ([1, 2, 3], [1] * 4, "Slot 0 holds 3 tokens and was given 4 more; the context is 6."),
        ([1, 2], [3, 11], "Token id 11 is not in 0 to 10, the model's vocabulary."),
        ([1, 2], [-1, 3], "Token id -1 is not in 0 to 10, the model's vocabulary."),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused_and_the_slot_stays(
    gpt2, decoder: NumpyDecoder, held: list[int], ids: list[int], said: str
) -> None:
    for id in held:
        decoder.step([0], [id])
    with pytest.raises(PromptError) as caught:
        decoder.prefill(0, ids)
    assert caught.value.message == said
    assert decoder.length(0) == len(held)
    np.testing.assert_allclose(decoder.prefill(0, [5]), NumpyDecoder(*gpt2).prefill(0, [*held, 5]), atol=1e-6)


@pytest.mark.parametrize(
    ("held", "id", "said"), [(IDS, 2, "Slot 1 holds 6 tokens and was given 1 more"), ([1], 99, "Token id 99 is not in")]
)
def test_a_step_that_one_row_cannot_take_moves_no_row(
    gpt2, decoder: NumpyDecoder, held: list[int], id: int, said: str
) -> None:
    decoder.prefill(0, [7])
    decoder.prefill(1, held)
    with pytest.raises(PromptError, match=said):
        decoder.step([0, 1], [1, id])
    assert [decoder.length(slot) for slot in range(3)] == [1, len(held), 0]
    np.testing.assert_allclose(decoder.prefill(0, [5]), NumpyDecoder(*gpt2).prefill(0, [7, 5]), atol=1e-6)


@pytest.mark.parametrize("slot", [-1, 3])
def test_a_slot_that_does_not_exist_is_the_callers_fault(decoder: NumpyDecoder, slot: int) -> None:
    decoder.prefill(2, [1, 2])
    for call in (
        lambda: decoder.prefill(slot, [1]),
        lambda: decoder.step([0, slot], [1, 1]),
        lambda: decoder.truncate(slot, 0),
        lambda: decoder.release(slot),
        lambda: decoder.length(slot),
    ):
        with pytest.raises(IndexError, match=f"there is no slot {slot}; the decoder has 3"):
            call()
    assert [decoder.length(each) for each in range(3)] == [0, 0, 2]


def test_calls_that_make_no_sense_are_caught(decoder: NumpyDecoder) -> None:
    decoder.prefill(0, [1, 2])
    for call in (
        lambda: decoder.step([0, 0], [1, 2]),
        lambda: decoder.step([0, 1], [1]),
        lambda: decoder.truncate(0, 3),
        lambda: decoder.truncate(0, -1),
    ):
        with pytest.raises(AssertionError, match="slot"):
            call()
    assert decoder.length(0) == 2


def test_a_model_without_the_mask_or_with_other_parts_is_refused() -> None:
    with pytest.raises(InputError, match="without the causal mask cannot generate"):
        NumpyDecoder(ModelConfig(vocab_size=5, mask="none"), {})
    with pytest.raises(ModelConfigError, match="position = 'learned' only"):
        NumpyDecoder(ModelConfig(vocab_size=5, position="rope"), {})
