"""Real decoders in a batch: chunks, copies and neighbours change the rounding of logits, and nothing else."""

import numpy as np
import pytest

from nextok.decode import Batch, Decoder, Generation, SamplingConfig, generate
from nextok.model import GPT, TorchDecoder, build
from nextok.model.weights import weight_arrays
from nextok.reference import NumpyDecoder
from nextok.spec import ModelConfig

# Two share a beginning, one is the beginning of another, one is the same again; the last is longer than the context.
PROMPTS = [
    [1, 2, 3, 4, 5, 6],
    [1, 2, 3, 7],
    [1, 2, 3],
    [8],
    [1, 2, 3, 4, 5, 6],
    [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3],
]
CONFIG = SamplingConfig(max_new_tokens=10, seed=3, overflow="half", top_logprobs=2)


def batched(decoder: Decoder, config: SamplingConfig, *, chunk: int, reuse: bool) -> list[Generation]:
    """Returns all continuations, where every third step brings a new one and one more is cancelled on the way."""
    with Batch(decoder, None, chunk=chunk, reuse=reuse) as batch:
        disturbing = batch.submit([1, 2, 3, 4], config)
        ones = []
        for prompt in PROMPTS:
            ones.append(batch.submit(prompt, config))
            for _ in range(3):
                batch.step()
        batch.cancel(disturbing)
        while batch.busy:
            batch.step()
    return [one.generation() for one in ones]


def alone(decoder: Decoder, config: SamplingConfig) -> list[Generation]:
    return [made for prompt in PROMPTS for [made] in generate(decoder, None, [prompt], config)]


def assert_same(made: list[Generation], wanted: list[Generation]) -> None:
    assert [one.ids for one in made] == [one.ids for one in wanted]
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


@pytest.mark.parametrize(("n_slots", "chunk"), [(3, 2), (1, 1000)])
def test_a_batch_gives_each_what_it_gets_alone(any_model: GPT, n_slots: int, chunk: int) -> None:
    made = batched(TorchDecoder(any_model, n_slots), CONFIG, chunk=chunk, reuse=True)
    assert_same(made, alone(TorchDecoder(any_model), CONFIG))


@pytest.mark.parametrize(("overflow", "chunk", "reuse"), [("slide", 5, True), ("half", 1, True), ("half", 7, False)])
def test_numpy_and_torch_batches_make_the_same_texts(overflow: str, chunk: int, reuse: bool) -> None:
    model = build(ModelConfig(n_layers=2, d_model=16, n_heads=4, context=12, vocab_size=11), seed=0)
    config = SamplingConfig(max_new_tokens=10, seed=3, overflow=overflow)
    numpy_decoder = NumpyDecoder(model.config, weight_arrays(model), n_slots=3)
    wanted = alone(NumpyDecoder(model.config, weight_arrays(model)), config)
    assert_same(batched(numpy_decoder, config, chunk=chunk, reuse=reuse), wanted)
    assert_same(batched(TorchDecoder(model, n_slots=3), config, chunk=chunk, reuse=reuse), wanted)


def test_choices_of_one_prompt_copy_what_one_of_them_read(any_model: GPT) -> None:
    config = SamplingConfig(max_new_tokens=6, n=4, temperature=1.5, seed=2)
    [together] = generate(TorchDecoder(any_model, n_slots=4), None, [PROMPTS[0]], config)
    [in_turn] = generate(TorchDecoder(any_model, n_slots=1), None, [PROMPTS[0]], config)
    assert_same(together, in_turn)
    assert len({made.ids for made in together}) == 4
