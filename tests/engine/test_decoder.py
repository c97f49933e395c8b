"""The laws of a decoder, to the last bit: how ids arrive, and beside what, changes no logit of any precision."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextok.decode import Decoder, SamplingConfig, generate
from nextok.engine import PRECISIONS, NumbaDecoder, PackedModel
from nextok.errors import CheckpointError, InputError, PromptError
from nextok.spec import ModelConfig

from .models import config_of, packed, some_ids, some_weights

NAMES = ["one more than a tile", "qwen3", "twelve queries a key", "after the sum"]
MODELS = {(name, precision): packed(config_of(name), precision) for name in NAMES for precision in PRECISIONS}


@pytest.fixture(params=MODELS.values(), ids=["-".join(key) for key in MODELS])
def model(request: pytest.FixtureRequest) -> PackedModel:
    return request.param


def whole(model: PackedModel, ids: list[int]) -> NDArray[np.float32]:
    """Returns the logits after each id, read at once into an empty slot."""
    return NumbaDecoder(model).prefill(0, ids, all_positions=True).copy()


def test_it_is_a_decoder(model: PackedModel) -> None:
    decoder = NumbaDecoder(model, n_slots=3)
    assert isinstance(decoder, Decoder)
    assert (decoder.context, decoder.vocab_size, decoder.n_slots) == (model.config.context, model.config.vocab_size, 3)


# --- to the last bit


@pytest.mark.parametrize("pieces", [[1] * 33, [5, 1, 20, 7], [32, 1], [3] * 11])
def test_ids_in_pieces_give_the_logits_of_ids_at_once(model: PackedModel, pieces: list[int]) -> None:
    ids = some_ids(model.config, 33)
    expected, decoder, start = whole(model, ids), NumbaDecoder(model), 0
    for piece in pieces:
        logits = decoder.prefill(0, ids[start : start + piece], all_positions=True)
        np.testing.assert_array_equal(logits, expected[start : start + piece])
        start += piece


def test_steps_give_the_logits_of_one_prompt(model: PackedModel) -> None:
    ids = some_ids(model.config, 33)
    expected, decoder = whole(model, ids), NumbaDecoder(model)
    decoder.prefill(0, ids[:2])
    for position in range(2, 33):
        np.testing.assert_array_equal(decoder.step([0], [ids[position]])[0], expected[position])


@pytest.mark.parametrize("slots", [[0, 1], [2, 0, 1, 3], [8, 7, 6, 5, 4, 3, 2, 1, 0]])
def test_rows_of_a_batch_are_what_each_is_alone(model: PackedModel, slots: list[int]) -> None:
    prompts = [some_ids(model.config, 2 + 3 * at, seed=at) for at in range(len(slots))]
    decoder = NumbaDecoder(model, n_slots=10)
    for slot, prompt in zip(slots, prompts, strict=True):
        decoder.prefill(slot, prompt[:-1])
    rows = decoder.step(slots, [prompt[-1] for prompt in prompts])
    for row, prompt in zip(rows, prompts, strict=True):
        np.testing.assert_array_equal(row, whole(model, prompt)[-1])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_prompt_longer_than_one_pass_is_read_in_passes(precision: str) -> None:
    config = ModelConfig(n_layers=1, d_model=32, n_heads=2, context=600, vocab_size=40)
    model, ids = packed(config, precision), some_ids(config, 600)
    decoder = NumbaDecoder(model, n_slots=3)
    every = decoder.prefill(0, ids, all_positions=True).copy()
    np.testing.assert_array_equal(decoder.prefill(1, ids), every[-1])
    for first in (599, 512, 257, 256, 255, 0):
        decoder.truncate(0, first)
        np.testing.assert_array_equal(decoder.step([0], [ids[first]])[0], every[first])
    decoder.prefill(2, ids[:300])
    np.testing.assert_array_equal(decoder.prefill(2, ids[300:], all_positions=True), every[300:])


def test_threads_change_nothing(model: PackedModel) -> None:
    ids = some_ids(model.config, 33)
    one, more = NumbaDecoder(model, threads=1), NumbaDecoder(model, threads=64)
    np.testing.assert_array_equal(one.prefill(0, ids, all_positions=True), more.prefill(0, ids, all_positions=True))
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(lambda: NumbaDecoder(model).prefill(0, ids).copy()).result()
    one.release(0)
    np.testing.assert_array_equal(one.prefill(0, ids), later)


# --- slots


def test_after_forgetting_a_tail_it_goes_on_as_a_fresh_one(model: PackedModel) -> None:
    kept, dropped, new = (some_ids(model.config, length, seed) for seed, length in enumerate((4, 20, 9)))
    decoder = NumbaDecoder(model, n_slots=2)
    decoder.prefill(1, kept + dropped)
    decoder.truncate(1, 4)
    np.testing.assert_array_equal(decoder.prefill(1, new, all_positions=True), whole(model, kept + new)[4:])
    decoder.release(1)
    np.testing.assert_array_equal(decoder.prefill(1, new), whole(model, new)[-1])


def test_what_a_slot_held_before_never_shows(model: PackedModel) -> None:
    decoder, ids = NumbaDecoder(model, n_slots=2), some_ids(model.config, 33)
    for tiles in (decoder._keys, decoder._values):
        tiles[...] = np.random.default_rng(0).integers(0, 0x7F, tiles.shape)  # up to 8e37 as float32 or bfloat16
    np.testing.assert_array_equal(decoder.prefill(1, ids, all_positions=True), whole(model, ids))
    np.testing.assert_array_equal(decoder.prefill(0, ids[:1]), whole(model, ids)[0])


@pytest.mark.parametrize(("held", "length"), [(0, 1), (0, 33), (2, 30), (2, 2), (31, 33), (32, 33)])
def test_a_slot_lengthened_by_copying_goes_on_as_one_that_read(model: PackedModel, held: int, length: int) -> None:
    ids, new = some_ids(model.config, 33), some_ids(model.config, 1, seed=5)
    decoder = NumbaDecoder(model, n_slots=3)
    decoder.prefill(1, some_ids(model.config, 33, seed=7))  # what slot 1 held before is not what it copies
    decoder.prefill(2, ids)
    decoder.truncate(1, 0)
    if held:
        decoder.prefill(1, ids[:held])
    decoder.copy(2, 1, length)
    assert [decoder.length(slot) for slot in range(3)] == [0, length, 33]
    if length < model.config.context:
        np.testing.assert_array_equal(decoder.prefill(1, new), whole(model, ids[:length] + new)[-1])
    decoder.truncate(1, length - 1)
    decoder.truncate(2, 32)
    rows = decoder.step([1, 2], [ids[length - 1], ids[32]])
    np.testing.assert_array_equal(rows, whole(model, ids)[[length - 1, 32]])


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_any_sequence_of_calls_leaves_each_slot_with_its_own_ids(precision: str, data: st.DataObject) -> None:
    model = MODELS["one more than a tile", precision]
    decoder, held = NumbaDecoder(model, n_slots=3), [[], [], []]
    for _ in range(data.draw(st.integers(1, 8))):
        slot, action = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(["read", "step", "forget", "copy"]))
        room = model.config.context - len(held[slot])
        if action == "read" and room:
            new = some_ids(model.config, data.draw(st.integers(1, room)), seed=data.draw(st.integers(0, 5)))
            decoder.prefill(slot, new)
            held[slot] += new
        elif action == "step":
            able = [each for each in range(3) if len(held[each]) < model.config.context]
            decoder.step(able, [each + 1 for each in able]) if able else None
            for each in able:
                held[each].append(each + 1)
        elif action == "forget":
            length = data.draw(st.integers(0, len(held[slot])))
            decoder.truncate(slot, length)
            held[slot] = held[slot][:length]
        elif action == "copy":
            other = data.draw(st.integers(0, 2))
            shared = next(
                (at for at, pair in enumerate(zip(held[slot], held[other], strict=False)) if pair[0] != pair[1]),
                min(len(held[slot]), len(held[other])),
            )
            if shared == len(held[other]) and other != slot and held[slot]:
                decoder.copy(slot, other, len(held[slot]))
                held[other] = list(held[slot])
    assert [decoder.length(slot) for slot in range(3)] == [len(ids) for ids in held]
    for slot, ids in enumerate(held):
        if ids:
            decoder.truncate(slot, len(ids) - 1)
            np.testing.assert_array_equal(decoder.step([slot], ids[-1:])[0], whole(model, ids)[-1])


# --- boundaries and refusals


def test_a_slot_can_be_filled_to_its_last_place_and_no_further(model: PackedModel) -> None:
    context = model.config.context
    ids = some_ids(model.config, context)
    decoder = NumbaDecoder(model, n_slots=2)
    decoder.prefill(1, ids[:-1])
    last = decoder.step([1], ids[-1:])[0].copy()
    np.testing.assert_array_equal(last, whole(model, ids)[-1])
    with pytest.raises(PromptError, match=f"Slot 1 holds {context} tokens and was given 1 more"):
        decoder.step([1], [0])
    decoder.truncate(1, context - 1)
    np.testing.assert_array_equal(decoder.prefill(1, ids[-1:]), last)


REFUSED: dict[str, tuple[Callable[[NumbaDecoder], object], type[Exception]]] = {
    "no ids": (lambda decoder: decoder.prefill(0, []), PromptError),
    "an id too large": (lambda decoder: decoder.prefill(0, [1, decoder.vocab_size]), PromptError),
    "an id below 0": (lambda decoder: decoder.prefill(0, [-1]), PromptError),
    "more than the context": (lambda decoder: decoder.prefill(0, [1] * decoder.context), PromptError),
    "a step of which one row has a bad id": (lambda decoder: decoder.step([0, 1], [1, -1]), PromptError),
    "a slot that is not there": (lambda decoder: decoder.prefill(3, [1]), IndexError),
    "a slot below 0": (lambda decoder: decoder.step([0, -1], [1, 1]), IndexError),
    "a slot twice": (lambda decoder: decoder.step([0, 0], [1, 1]), AssertionError),
    "fewer ids than slots": (lambda decoder: decoder.step([0, 1], [1]), AssertionError),
    "a copy of more than there is": (lambda decoder: decoder.copy(0, 1, 6), AssertionError),
}


@pytest.mark.parametrize(("call", "kind"), REFUSED.values(), ids=REFUSED.keys())
def test_a_call_that_raises_leaves_every_slot_as_it_was(
    model: PackedModel, call: Callable[[NumbaDecoder], object], kind: type[Exception]
) -> None:
    ids = some_ids(model.config, 6)
    decoder = NumbaDecoder(model, n_slots=3)
    decoder.prefill(0, ids[:5])
    decoder.prefill(1, ids[:2])
    with pytest.raises(kind):
        call(decoder)
    assert [decoder.length(slot) for slot in range(3)] == [5, 2, 0]
    rows = decoder.step([0, 1, 2], [ids[5], ids[2], ids[0]])
    np.testing.assert_array_equal(rows, whole(model, ids)[[5, 2, 0]])


def test_a_model_without_the_mask_is_refused() -> None:
    config = replace(config_of("whole tiles"), mask="none")
    with pytest.raises(InputError, match="without the causal mask cannot generate"):
        NumbaDecoder(packed(config, "fp32"))


def test_answers_are_finite_float32_that_nobody_else_writes_until_the_next_call(model: PackedModel) -> None:
    decoder = NumbaDecoder(model, n_slots=2)
    last = decoder.prefill(0, np.array([1, 2, 3], np.int32))
    assert (last.shape, last.dtype) == ((model.config.vocab_size,), np.float32)
    assert np.isfinite(last).all()
    rows = decoder.step((1, 0), (4, 4))
    assert (rows.shape, rows.dtype) == ((2, model.config.vocab_size), np.float32)


@pytest.mark.parametrize(("cache", "bytes_a_number"), [("fp32", 4), ("bf16", 2)])
def test_memory_is_taken_once_and_is_that_of_whole_tiles(cache: str, bytes_a_number: int) -> None:
    config = config_of("one more than a tile")  # heads of 11 and 33 positions: 32 by 64 in tiles
    decoder = NumbaDecoder(packed(config, "int8"), n_slots=5, cache=cache)
    assert decoder._keys.nbytes == decoder._values.nbytes == 2 * 5 * 3 * 32 * 64 * bytes_a_number
    places = decoder._keys.ctypes.data, decoder._values.ctypes.data
    for slot in range(5):
        decoder.prefill(slot, some_ids(config, 33))
    assert (decoder._keys.ctypes.data, decoder._values.ctypes.data) == places


def test_the_model_is_not_changed_by_running_it(model: PackedModel) -> None:
    before = model.arena.copy(), model.vectors.copy(), model.plan.matrices.copy()
    NumbaDecoder(model).prefill(0, some_ids(model.config, 33))
    for then, now in zip(before, (model.arena, model.vectors, model.plan.matrices), strict=True):
        np.testing.assert_array_equal(then, now)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_texts_made_together_are_those_made_alone(precision: str) -> None:
    model = MODELS["qwen3", precision]
    prompts = [some_ids(model.config, length, seed=length) for length in (3, 7, 1, 12)]
    config = SamplingConfig(max_new_tokens=12, seed=3, temperature=1.0)
    together = list(generate(NumbaDecoder(model, n_slots=3), None, prompts, config))
    for [made], prompt in zip(together, prompts, strict=True):
        [[alone]] = list(generate(NumbaDecoder(model), None, [prompt], config))
        assert (made.ids, made.logprobs) == (alone.ids, alone.logprobs)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_weight_that_is_not_a_number_is_refused_by_name(precision: str, number: float) -> None:
    config = config_of("whole tiles")
    for name in ("blocks.1.attn.qkv.weight", "embed.tokens.weight", "final_norm.weight"):
        weights = some_weights(config)
        weights[name].flat[7] = number
        with pytest.raises(CheckpointError, match=name):
            packed(config, precision, weights)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_number_that_overflows_on_the_way_is_seen_in_the_logits(precision: str) -> None:
    config = config_of("whole tiles")
    weights = some_weights(config)
    weights["blocks.0.norm2.weight"][:] = 3e38  # times anything: beyond float32
    weights["blocks.0.mlp.up.weight"][:] = 3e38
    logits_V = NumbaDecoder(packed(config, precision, weights)).prefill(0, [0, 2])
    assert not np.isfinite(logits_V).any()
