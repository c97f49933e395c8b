"""The torch decoder's slots: what it accepts, what it refuses, and that a refusal leaves everything as it was.

That cached and uncached decoding agree is in `tests/laws/test_cached_decoding.py`.
"""

from functools import partial

import numpy as np
import pytest
import torch

from nextok.decode.protocol import Decoder
from nextok.errors import InputError, PromptError
from nextok.model import GPT, TorchDecoder, build
from nextok.spec import ModelConfig, count


@pytest.fixture
def model() -> GPT:
    return build(ModelConfig(n_layers=2, d_model=16, n_heads=4, n_kv_heads=2, context=6, vocab_size=11), seed=0)


@pytest.fixture
def decoder(model: GPT) -> TorchDecoder:
    return TorchDecoder(model, n_slots=3)


def test_it_is_a_decoder(decoder: TorchDecoder) -> None:
    spoken_to: Decoder = decoder
    assert (spoken_to.context, spoken_to.vocab_size, spoken_to.n_slots) == (6, 11, 3)


def test_answers_are_float32_rows_of_logits(decoder: TorchDecoder) -> None:
    last = decoder.prefill(0, [1, 2, 3])
    every = decoder.prefill(1, np.array([1, 2, 3], dtype=np.int32), all_positions=True)
    rows = decoder.step([1, 0], [4, 4])
    assert (last.shape, every.shape, rows.shape) == ((11,), (3, 11), (2, 11))
    assert last.dtype == every.dtype == rows.dtype == np.float32
    np.testing.assert_allclose(every[-1], last, atol=1e-6)


def test_slots_count_what_they_hold(decoder: TorchDecoder) -> None:
    assert [decoder.length(slot) for slot in range(3)] == [0, 0, 0]
    decoder.prefill(1, [1, 2, 3])
    decoder.step([2, 1], [4, 5])
    assert [decoder.length(slot) for slot in range(3)] == [0, 4, 1]
    decoder.truncate(1, 2)
    decoder.release(2)
    decoder.release(0)
    assert [decoder.length(slot) for slot in range(3)] == [0, 2, 0]


def test_memory_is_taken_once_and_is_what_the_count_says(model: GPT) -> None:
    decoder = TorchDecoder(model, n_slots=3)
    taken = decoder._keys_LBGSK.nbytes + decoder._values_LBGSK.nbytes
    assert taken == count(model.config).kv_cache_bytes_per_token * 6 * 3
    before = decoder._keys_LBGSK.data_ptr()
    decoder.prefill(0, [1, 2, 3, 4, 5, 6])
    assert decoder._keys_LBGSK.data_ptr() == before


def test_the_model_is_put_into_evaluation_and_not_changed_otherwise(model: GPT) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    TorchDecoder(model.train()).prefill(0, [1, 2])
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and not parameter.is_inference() for parameter in model.parameters())


def test_the_cache_has_the_precision_of_the_model_and_the_answer_is_float32(model: GPT) -> None:
    decoder = TorchDecoder(model.to(torch.bfloat16))
    assert decoder._keys_LBGSK.dtype == torch.bfloat16
    assert decoder.prefill(0, [1, 2]).dtype == np.float32


def test_a_model_without_the_mask_is_refused() -> None:
    model = build(ModelConfig(n_layers=1, vocab_size=5, mask="none"), seed=0)
    with pytest.raises(InputError, match="without the causal mask cannot generate"):
        TorchDecoder(model)


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
    decoder: TorchDecoder, held: list[int], ids: list[int], said: str
) -> None:
    if held:
        decoder.prefill(0, held)
    with pytest.raises(PromptError) as caught:
        decoder.prefill(0, ids)
    assert caught.value.message == said
    assert decoder.length(0) == len(held)
    assert_continues(decoder, held)


@pytest.mark.parametrize(
    ("ids", "said"), [([1, 2], "Slot 1 holds 6 tokens and was given 1 more"), ([1, 99], "Token id 99 is not in")]
)
def test_a_step_that_one_row_cannot_take_moves_no_row(decoder: TorchDecoder, ids: list[int], said: str) -> None:
    decoder.prefill(0, [7])
    decoder.prefill(1, [1, 2, 3, 4, 5, 6] if "Slot" in said else [1])
    lengths = [decoder.length(slot) for slot in range(3)]
    with pytest.raises(PromptError, match=said):
        decoder.step([0, 1], ids)
    assert [decoder.length(slot) for slot in range(3)] == lengths
    assert_continues(decoder, [7])


def assert_continues(decoder: TorchDecoder, held: list[int]) -> None:
    """Checks that slot 0 goes on as a fresh slot with the same ids does."""
    fresh = TorchDecoder(decoder.model).prefill(0, [*held, 5])
    np.testing.assert_allclose(decoder.prefill(0, [5]), fresh, atol=1e-5)


@pytest.mark.parametrize("slot", [-1, 3])
def test_a_slot_that_does_not_exist_is_the_callers_fault(decoder: TorchDecoder, slot: int) -> None:
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


def test_a_replacement_holds_for_the_calls_in_its_block_and_leaves_the_past(decoder: TorchDecoder) -> None:
    untouched = TorchDecoder(decoder.model, n_slots=3)
    for each in (decoder, untouched):
        each.prefill(0, [1, 2, 3])
    with decoder.model.replace({"logits": torch.zeros_like, "blocks.0.attn.q": torch.zeros_like}):
        assert not decoder.step([0], [4]).any()
        assert not decoder.prefill(1, [1, 2], all_positions=True).any()
    decoder.truncate(0, 3)
    np.testing.assert_array_equal(decoder.step([0], [4]), untouched.step([0], [4]))


def test_a_replacement_sees_the_positions_of_the_step(decoder: TorchDecoder) -> None:
    points = ("embed", "blocks.1.attn.k", "blocks.1.attn.pattern", "logits")
    seen: list[tuple[str, list[int]]] = []

    def watch(name: str, value: torch.Tensor) -> torch.Tensor:
        seen.append((name, list(value.shape)))
        return value

    with decoder.model.replace({name: partial(watch, name) for name in points}):
        decoder.prefill(0, [1, 2, 3])
        decoder.prefill(0, [4, 5])
        decoder.prefill(1, [1])
        assert [dict(seen[at : at + 4]) for at in (0, 4)] == [
            dict(zip(points, ([1, 3, 16], [1, 2, 3, 4], [1, 4, 3, 3], [1, 1, 11]), strict=True)),
            dict(zip(points, ([1, 2, 16], [1, 2, 2, 4], [1, 4, 2, 5], [1, 1, 11]), strict=True)),
        ]
        seen.clear()
        decoder.step([1, 0], [6, 6])
    assert [shape for _, shape in seen] == [[2, 1, 16], [2, 2, 1, 4], [1, 4, 1, 2], [1, 4, 1, 6], [2, 1, 11]]


def test_a_replacement_made_for_a_whole_pass_is_refused_in_a_step_and_moves_no_slot(decoder: TorchDecoder) -> None:
    decoder.prefill(0, [7])
    patch_BTD = torch.zeros(1, 4, 16)
    with (
        decoder.model.replace({"blocks.1.resid_pre": lambda _: patch_BTD}),
        pytest.raises(InputError, match=r"blocks\.1\.resid_pre gave shape \[1, 4, 16\]; the value has \[1, 1, 16\]"),
    ):
        decoder.step([0], [1])
    assert decoder.length(0) == 1
    assert_continues(decoder, [7])


def test_calls_that_make_no_sense_are_caught(decoder: TorchDecoder) -> None:
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
