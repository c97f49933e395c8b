"""Weights as arrays: native names, float32, views; and back, refused where they are another model's."""

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import build, load_weights, weight_arrays
from nextok.spec import ModelConfig, parameter_shapes, preset_config

TINY = ModelConfig(n_layers=2, d_model=8, n_heads=2, context=8, vocab_size=11)


@pytest.mark.parametrize("recipe", ["classic", "modern"])
def test_weights_have_native_names_and_shapes(recipe: str) -> None:
    config = preset_config("lesson-a", recipe)
    weights = weight_arrays(build(config, seed=0))
    assert {name: array.shape for name, array in weights.items()} == parameter_shapes(config)


def test_half_precision_comes_out_as_float32() -> None:
    weights = weight_arrays(build(TINY, seed=0).to(torch.bfloat16))
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}


def test_float32_weights_are_views() -> None:
    model = build(TINY, seed=0)
    weights = weight_arrays(model)
    with torch.no_grad():
        model.embed.tokens.weight.fill_(7)
    assert (weights["embed.tokens.weight"] == 7).all()


def test_weights_loaded_into_another_model_make_it_the_same() -> None:
    one, other = build(TINY, seed=0), build(TINY, seed=1)
    load_weights(other, weight_arrays(one))
    ids_BT = torch.arange(8)[None]
    assert torch.equal(one(ids_BT), other(ids_BT))
    with torch.no_grad():
        one.embed.tokens.weight.fill_(7)
    assert not (other.embed.tokens.weight == 7).any()


def test_weights_of_another_model_are_refused_by_name() -> None:
    weights = weight_arrays(build(TINY, seed=0))
    with pytest.raises(CheckpointError, match="'head.weight' is in only one"):
        load_weights(build(TINY, seed=0), weights | {"head.weight": np.zeros((11, 8), np.float32)})
    with pytest.raises(CheckpointError, match=r"final_norm.bias is \[3\], not \[8\]"):
        load_weights(build(TINY, seed=0), weights | {"final_norm.bias": np.zeros(3, np.float32)})
