"""The running mean of the weights: by hand, in place of them, and back."""

import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import build
from nextok.spec import preset_config
from nextok.train.average import Average

CONFIG = preset_config("lesson-a")


def test_mean_follows_the_weights_faster_at_first() -> None:
    model = build(CONFIG, 1)
    bias = model.blocks[0].mlp.up.bias
    with torch.no_grad():
        bias.fill_(0.0)
    average = Average(model, 0.9)
    with torch.no_grad():
        bias.fill_(11.0)
    average.update(1)  # decay 1 / 11
    expected = 10.0
    assert average.arrays()["blocks.0.mlp.up.bias"][0] == pytest.approx(expected)
    average.update(1000)  # decay 0.9
    assert average.arrays()["blocks.0.mlp.up.bias"][0] == pytest.approx(0.9 * expected + 0.1 * 11)


def test_weights_come_back_to_the_bit_even_after_an_error() -> None:
    model = build(CONFIG, 1)
    average = Average(model, 0.9)
    with torch.no_grad():
        model.head.weight.add_(1.0)  # type: ignore[union-attr]
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(KeyError), average.in_place():
        assert not torch.equal(model.head.weight, weights["head.weight"])  # type: ignore[union-attr, arg-type]
        raise KeyError
    assert all(torch.equal(weight, weights[name]) for name, weight in model.named_parameters())


def test_mean_goes_into_arrays_and_back() -> None:
    model = build(CONFIG, 1)
    average = Average(model, 0.9)
    other = Average(build(CONFIG, 2), 0.9)
    arrays = {name: array.copy() for name, array in average.arrays().items()}
    other.load(arrays)
    assert all((array == arrays[name]).all() for name, array in other.arrays().items())
    del arrays["head.weight"]
    with pytest.raises(CheckpointError, match=r"no head\.weight"):
        other.load(arrays)
