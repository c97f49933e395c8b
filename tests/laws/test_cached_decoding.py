"""Decoding with a cache gives what the model gives without one: in pieces, beside neighbours, after any past."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextok.model import GPT, TorchDecoder, build
from nextok.spec import ModelConfig, hook_names, preset_config


def uncached(model: GPT, ids: list[int]) -> NDArray[np.float32]:
    """Returns the logits `[T, V]` of one pass of the model itself."""
    with torch.inference_mode():
        return model(torch.tensor([ids]))[0].float().numpy()


def some_ids(model: GPT, length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, model.config.vocab_size, length).tolist()


def assert_close(actual: NDArray[np.float32], expected: NDArray[np.float32], within: float = 1e-5) -> None:
    np.testing.assert_allclose(actual, expected, atol=within, rtol=1e-5)


def test_every_step_gives_the_logits_of_the_whole_pass(any_model: GPT) -> None:
    ids = some_ids(any_model, any_model.config.context)
    expected = uncached(any_model, ids)
    decoder = TorchDecoder(any_model)
    assert_close(decoder.prefill(0, ids[:3]), expected[2])
    for position in range(3, len(ids)):
        assert_close(decoder.step([0], [ids[position]])[0], expected[position])


@pytest.mark.parametrize(
    "parts",
    [{}, {"position": "rope", "n_kv_heads": 2, "qk_norm": True}, {"position": "rope", "bigrams": 60}],
    ids=["gpt2", "qwen3", "pairs"],
)
def test_twenty_greedy_tokens_are_those_of_the_model_without_a_cache(parts: dict) -> None:
    model = build(ModelConfig(n_layers=2, d_model=32, n_heads=4, context=24, vocab_size=50, **parts), seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(
                20 if name in ("embed.positions.weight", "embed.bigrams.weight") else 3
            )  # a wrong position would show
    ids = [5, 12, 3]
    decoder = TorchDecoder(model)
    logits = decoder.prefill(0, ids)
    for _ in range(20):
        expected = uncached(model, ids)[-1]
        assert_close(logits, expected)
        assert logits.argmax() == expected.argmax()
        ids.append(int(logits.argmax()))
        logits = decoder.step([0], ids[-1:])[0]
    assert len(set(ids[3:])) > 3, "a model that repeats one token would hide a wrong position"


def test_the_lesson_models_greedy_tokens_through_the_cache() -> None:
    decoder = TorchDecoder(build(preset_config("lesson-a"), seed=42))
    ids, logits = [5, 12, 3], decoder.prefill(0, [5, 12, 3])
    for _ in range(5):
        ids.append(int(logits.argmax()))
        logits = decoder.step([0], ids[-1:])[0]
    assert ids == [5, 12, 3, 42, 2, 38, 35, 35]


@pytest.mark.parametrize("pieces", [[12], [1, 11], [5, 4, 3], [1] * 12])
def test_a_prompt_read_in_pieces_is_the_prompt_read_at_once(any_model: GPT, pieces: list[int]) -> None:
    ids = some_ids(any_model, 12)
    expected = uncached(any_model, ids)
    decoder, start = TorchDecoder(any_model), 0
    for piece in pieces:
        logits = decoder.prefill(0, ids[start : start + piece], all_positions=True)
        assert_close(logits, expected[start : start + piece])
        start += piece


def test_rows_at_different_places_go_on_as_each_would_alone(any_model: GPT) -> None:
    prompts = [some_ids(any_model, length, seed=length) for length in (2, 5, 1)]
    together = TorchDecoder(any_model, n_slots=4)
    slots = [3, 0, 1]
    rows = np.stack([together.prefill(slot, prompt) for slot, prompt in zip(slots, prompts, strict=True)])
    for _ in range(6):
        for row, prompt in zip(rows, prompts, strict=True):
            expected = uncached(any_model, prompt)[-1]
            assert_close(row, expected, within=1e-4)
            prompt.append(int(expected.argmax()))
        rows = together.step(slots, [prompt[-1] for prompt in prompts])


def test_some_slots_can_step_while_others_wait(any_model: GPT) -> None:
    decoder = TorchDecoder(any_model, n_slots=2)
    waiting, moving = some_ids(any_model, 4, seed=1), some_ids(any_model, 9, seed=2)
    decoder.prefill(0, waiting[:3])
    decoder.prefill(1, moving[:2])
    for id in moving[2:]:
        decoder.step([1], [id])
    assert_close(decoder.step([0], waiting[3:])[0], uncached(any_model, waiting)[-1])


def test_after_forgetting_a_tail_it_goes_on_as_a_fresh_one(any_model: GPT) -> None:
    kept, dropped, new = some_ids(any_model, 4, 1), some_ids(any_model, 6, 2), some_ids(any_model, 5, 3)
    decoder = TorchDecoder(any_model)
    decoder.prefill(0, kept + dropped)
    decoder.truncate(0, 4)
    assert_close(decoder.prefill(0, new[:3]), uncached(any_model, kept + new[:3])[-1])
    assert_close(decoder.step([0], new[3:4])[0], uncached(any_model, kept + new[:4])[-1])
    decoder.truncate(0, 0)
    assert_close(decoder.prefill(0, new), uncached(any_model, new)[-1])


def test_a_slot_lengthened_by_copying_goes_on_as_one_that_read(any_model: GPT) -> None:
    ids, new = some_ids(any_model, 7, seed=1), some_ids(any_model, 2, seed=2)
    decoder = TorchDecoder(any_model, n_slots=3)
    decoder.prefill(0, ids)
    decoder.prefill(1, ids[:2])
    decoder.copy(0, 1, 5)
    decoder.copy(1, 2, 4)
    for slot, held in ((1, 5), (2, 4), (0, 7)):
        assert_close(decoder.prefill(slot, new), uncached(any_model, ids[:held] + new)[-1])


def test_a_released_slot_knows_nothing_of_what_it_held(any_model: GPT) -> None:
    decoder = TorchDecoder(any_model, n_slots=2)
    decoder.prefill(0, some_ids(any_model, 12, seed=1))
    neighbour = some_ids(any_model, 3, seed=2)
    decoder.prefill(1, neighbour[:2])
    decoder.release(0)
    ids = some_ids(any_model, 5, seed=3)
    fresh = TorchDecoder(any_model, n_slots=2)
    np.testing.assert_array_equal(decoder.prefill(0, ids), fresh.prefill(0, ids))
    assert_close(decoder.step([1], neighbour[2:])[0], uncached(any_model, neighbour)[-1])


def test_decoding_is_right_with_eager_attention_in_the_model_too(any_model: GPT) -> None:
    ids = some_ids(any_model, 7)
    expected = uncached(any_model, ids)
    any_model.use_eager_attention()
    assert_close(uncached(any_model, ids), expected)
    assert_close(TorchDecoder(any_model).prefill(0, ids, all_positions=True), expected)


# --- with replaced values


def in_pieces(model: GPT, ids: list[int]) -> NDArray[np.float32]:
    """Returns the logits `[T, V]` of two prompts and then steps, in a slot beside a busy one."""
    decoder = TorchDecoder(model, n_slots=2)
    rows = [*decoder.prefill(1, ids[:3], all_positions=True), *decoder.prefill(1, ids[3:5], all_positions=True)]
    for at, id in enumerate(ids[5:], start=5):
        rows.append(decoder.step([0, 1], [ids[at - 1], id])[1])
    return np.stack(rows)


def halve_what_is_positive(value: Tensor) -> Tensor:
    return torch.where(value > 0, value / 2, value)  # no norm undoes it, and what is masked stays masked


def test_what_is_replaced_in_the_model_is_replaced_in_its_decoder(any_model: GPT) -> None:
    ids = some_ids(any_model, 9)
    plain = in_pieces(any_model, ids)
    with any_model.replace({"*": halve_what_is_positive}):
        assert_close(in_pieces(any_model, ids), uncached(any_model, ids))
    np.testing.assert_array_equal(in_pieces(any_model, ids), plain)


def test_every_single_hook_point_reaches_the_decoder() -> None:
    model = build(ModelConfig(n_layers=2, d_model=16, n_heads=4, n_kv_heads=2, context=8, vocab_size=11), seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10)
    ids = some_ids(model, 7)
    plain = in_pieces(model, ids)
    for name in hook_names(model.config):
        with model.replace({name: halve_what_is_positive}):
            replaced = in_pieces(model, ids)
            np.testing.assert_allclose(replaced, uncached(model, ids), atol=1e-4, rtol=1e-4, err_msg=name)
        assert np.abs(replaced - plain).max() > 1e-3, name


def test_a_key_that_a_replaced_mask_hides_is_hidden_from_every_step(any_model: GPT) -> None:
    def hide_the_first(masked_BHTS: Tensor) -> Tensor:
        return masked_BHTS.index_fill(-1, torch.tensor([0]), -math.inf)  # the first query is left with none

    if any_model.config.bigrams:
        pytest.skip("where pairs have vectors, the second token brings the first with it")
    ids = some_ids(any_model, 9)
    with any_model.replace({"blocks.*.attn.masked": hide_the_first}):
        hidden = in_pieces(any_model, ids)
        assert_close(hidden, uncached(any_model, ids))
        others = in_pieces(any_model, [(ids[0] + 1) % any_model.config.vocab_size, *ids[1:]])
    assert np.isfinite(hidden).all()
    np.testing.assert_array_equal(others[1:], hidden[1:])
