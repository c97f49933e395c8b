"""The compiled model against the torch model and against its own arithmetic in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nextok.engine import PRECISIONS, NumbaDecoder
from nextok.model import GPT, build
from nextok.model.weights import load_weights, weight_arrays
from nextok.reference import NumpyDecoder
from nextok.spec import ModelConfig

from .models import SIZES, config_of, packed, some_ids, some_weights
from .twin import twin_logits


def by_torch(model: GPT, ids: list[int]) -> NDArray[np.float32]:
    with torch.inference_mode():
        return model(torch.tensor([ids]))[0].numpy()


def torch_model(config: ModelConfig) -> GPT:
    model = build(config, seed=0).eval()
    load_weights(model, some_weights(config))
    return model


def relative(difference: NDArray, exact: NDArray) -> float:
    """Returns the root mean square of a difference, as a part of that of the logits."""
    return float(np.sqrt((difference.astype(np.float64) ** 2).mean() / (exact.astype(np.float64) ** 2).mean()))


# --- float32: the model itself


def test_every_kind_of_model_gives_the_logits_of_torch(any_model: GPT) -> None:
    config = any_model.config
    ids = some_ids(config, config.context)
    decoder = NumbaDecoder(packed(config, "fp32", weight_arrays(any_model)))
    logits = decoder.prefill(0, ids, all_positions=True)
    np.testing.assert_allclose(logits, by_torch(any_model, ids), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", SIZES)
def test_every_size_gives_the_logits_of_torch_at_every_length(name: str) -> None:
    config = config_of(name)
    ids = some_ids(config, config.context)
    decoder, model = NumbaDecoder(packed(config, "fp32")), torch_model(config)
    for length in {1, config.context // 2 + 1, config.context - 1, config.context} & {*range(1, config.context + 1)}:
        decoder.release(0)
        expected = by_torch(model, ids[:length])[-1]
        np.testing.assert_allclose(decoder.prefill(0, ids[:length]), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("context", range(1, 34))
def test_every_context_up_to_one_past_a_tile_gives_the_logits_of_torch(context: int) -> None:
    config = ModelConfig(n_layers=1, d_model=24, n_heads=3, context=context, vocab_size=40)
    ids = some_ids(config, context)
    decoder = NumbaDecoder(packed(config, "fp32"))
    expected = by_torch(torch_model(config), ids)
    np.testing.assert_allclose(decoder.prefill(0, ids, all_positions=True), expected, atol=1e-4, rtol=1e-5)


def test_the_numpy_reference_agrees() -> None:
    config = ModelConfig(n_layers=2, d_model=40, n_heads=5, context=35, vocab_size=70)
    weights, ids = some_weights(config), some_ids(config, 35)
    expected = NumpyDecoder(config, weights).prefill(0, ids, all_positions=True)
    decoder = NumbaDecoder(packed(config, "fp32", weights))
    np.testing.assert_allclose(decoder.prefill(0, ids, all_positions=True), expected, atol=1e-4, rtol=1e-5)


# --- every precision: the same arithmetic in NumPy


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SIZES)
def test_every_precision_is_its_own_arithmetic(name: str, precision: str) -> None:
    """A number next to a tie may be rounded the other way here and there, and all that follows with it."""
    config = config_of(name)
    model = packed(config, precision)
    distances = []
    for seed in range(5):
        ids = some_ids(config, min(10, config.context), seed)
        expected = twin_logits(model, ids)
        distances.append(relative(NumbaDecoder(model).prefill(0, ids, all_positions=True) - expected, expected))
    assert min(distances) < 2e-6, distances
    assert max(distances) < 0.05, distances


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_kind_of_model_is_its_own_arithmetic(any_config: ModelConfig, precision: str) -> None:
    model = packed(any_config, precision)
    distances = []
    for seed in range(5):
        ids = some_ids(any_config, 7, seed)
        expected = twin_logits(model, ids)
        distances.append(relative(NumbaDecoder(model).prefill(0, ids, all_positions=True) - expected, expected))
    assert min(distances) < 2e-6, distances
    assert max(distances) < 0.05, distances


@pytest.mark.parametrize(("precision", "cache"), [("fp32", "bf16"), ("int8", "fp32")])
@pytest.mark.parametrize("name", ["one more than a tile", "qwen3"])
def test_the_cache_rounds_what_it_is_told_to(name: str, precision: str, cache: str) -> None:
    config = config_of(name)
    model, ids = packed(config, precision), some_ids(config, 9)
    logits = NumbaDecoder(model, cache=cache).prefill(0, ids, all_positions=True)
    expected, others = (twin_logits(model, ids, cache=each) for each in (cache, "fp32" if cache == "bf16" else "bf16"))
    assert relative(logits - expected, expected) < relative(logits - others, others) / 5


@pytest.mark.parametrize(("precision", "within"), [("bf16", 0.01), ("int8", 0.03), ("int4", 0.2)])
def test_fewer_bits_stay_near_float32(precision: str, within: float) -> None:
    config = ModelConfig(n_layers=2, d_model=128, n_heads=4, context=64, vocab_size=100)
    ids = some_ids(config, 64)
    exact = NumbaDecoder(packed(config, "fp32")).prefill(0, ids, all_positions=True)
    rounded = NumbaDecoder(packed(config, precision)).prefill(0, ids, all_positions=True)
    assert within / 10 < relative(rounded - exact, exact) < within


@pytest.mark.parametrize("precision", PRECISIONS)
def test_logits_of_some_positions_are_those_of_all(precision: str) -> None:
    config = config_of("one more than a tile")
    decoder, ids = NumbaDecoder(packed(config, precision)), some_ids(config, 9)
    every = decoder.prefill(0, ids, all_positions=True).copy()
    decoder.release(0)
    np.testing.assert_array_equal(decoder.prefill(0, ids), every[-1])


def test_capped_logits_stay_below_the_cap_and_keep_their_order() -> None:
    config = config_of("capped")
    logits = NumbaDecoder(packed(config, "fp32")).prefill(0, some_ids(config, 5))
    assert np.abs(logits).max() <= config.logit_softcap * (1 + 1e-6)
