"""A packed model stands for the weights it was given, as its precision rounds them."""

import weakref

import numpy as np
import pytest

from nextok.engine import PRECISIONS, pack_model
from nextok.spec import ModelConfig, count

from .models import SIZES, config_of, packed, some_weights
from .twin import to_bf16


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_read_back_is_what_was_packed_within_the_precision(name: str, precision: str) -> None:
    config = config_of(name)
    weights = some_weights(config)
    back = packed(config, precision, weights).weights()
    assert list(back) == list(weights)
    for key, weight in weights.items():
        assert back[key].dtype == np.float32 and back[key].shape == weight.shape
        is_matrix = weight.ndim == 2 and key != "embed.positions.weight"
        if precision == "fp32" or not is_matrix:
            np.testing.assert_array_equal(back[key], weight)
        elif precision == "bf16":
            np.testing.assert_array_equal(back[key], to_bf16(weight))
        elif precision == "int8" or not key.startswith("blocks."):
            steps = np.abs(weight).max(axis=1, keepdims=True) / 127
            assert (np.abs(back[key] - weight) <= 0.501 * steps).all()
        else:
            assert ((back[key] - weight) ** 2).mean() < 0.02 * (weight**2).mean()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_order_in_which_weights_come_does_not_matter(precision: str) -> None:
    config = config_of("qwen3")
    weights = some_weights(config)
    forwards, backwards = packed(config, precision, weights), packed(config, precision, dict(reversed(weights.items())))
    np.testing.assert_array_equal(forwards.arena, backwards.arena)
    np.testing.assert_array_equal(forwards.vectors, backwards.vectors)


def test_weights_not_given_twice_given_or_unknown_are_caught() -> None:
    config = config_of("whole tiles")
    weights = some_weights(config)
    with pytest.raises(AssertionError, match="final_norm.bias"):
        pack_model(config, ((name, weight) for name, weight in weights.items() if name != "final_norm.bias"), "int8")
    for extra in (("head.weight", weights["embed.tokens.weight"]), ("final_norm.bias", weights["final_norm.bias"])):
        with pytest.raises(KeyError, match=extra[0]):
            pack_model(config, [*weights.items(), extra], "int8")


def test_weights_are_taken_one_at_a_time() -> None:
    config = config_of("whole tiles")
    before: list[weakref.ref] = []

    def made_when_asked():
        weights = some_weights(config)
        while weights:
            assert all(each() is None for each in before[:-1]), "one from before the last is still held"
            name = next(iter(weights))
            weight = weights.pop(name)
            before.append(weakref.ref(weight))
            yield name, weight
            del weight

    pack_model(config, made_when_asked(), "bf16")
    assert len(before) > 20


@pytest.mark.parametrize(("precision", "bits"), [("fp32", 32), ("bf16", 16), ("int8", 8), ("int4", 4.5)])
def test_memory_is_that_of_the_weights(precision: str, bits: float) -> None:
    config = ModelConfig(n_layers=2, d_model=128, n_heads=4, context=64, vocab_size=96)
    model = packed(config, precision)
    outside = 128 * 96
    numbers = count(config).parameters - outside
    expected = (numbers * bits + outside * max(bits, 8)) / 8
    assert expected < model.bytes < 1.15 * expected + 4 * 64 * 128 + 8 * 4 * 512
    assert model.bytes == model.arena.nbytes + model.vectors.nbytes


def test_matrices_begin_at_a_huge_page() -> None:
    assert packed(config_of("whole tiles"), "int4").arena.ctypes.data % 2**21 == 0


def test_what_is_read_back_is_a_copy() -> None:
    model = packed(config_of("whole tiles"), "fp32")
    model.weights()["final_norm.bias"][:] = 9
    assert not (model.weights()["final_norm.bias"] == 9).any()
