"""The feed-forward layer, by hand: every activation at three points."""

import math

import pytest
import torch

from nextok.model.mlp import FeedForward
from nextok.model.taps import NO_TAPS, Taps
from nextok.spec import ModelConfig

POINTS = [-1.0, 0.5, 2.0]


def identity_layer(kind: str, **options: object) -> FeedForward:
    """Returns a layer whose matrices change nothing; of SwiGLU the gate is x and the value 2 x."""
    layer = FeedForward(ModelConfig(vocab_size=5, d_model=3, n_heads=1, d_ff=3, mlp=kind, bias=False, **options))
    eye = torch.eye(3)
    with torch.no_grad():
        layer.up.weight.copy_(torch.cat([eye, 2 * eye]) if kind == "swiglu" else eye)
        layer.down.weight.copy_(eye)
    return layer


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("gelu", [-0.158655, 0.345731, 1.954500]),
        ("gelu_tanh", [-0.158808, 0.345714, 1.954598]),
        ("relu", [0.0, 0.5, 2.0]),
        ("relu2", [0.0, 0.25, 4.0]),
        ("swiglu", [0.537883, 0.311230, 7.046377]),
    ],
)
def test_activations_by_hand(kind: str, values: list[float]) -> None:
    assert identity_layer(kind)(torch.tensor([[POINTS]]), NO_TAPS).flatten().tolist() == pytest.approx(values, abs=2e-6)


def test_gelu_is_x_times_the_normal_distribution_function() -> None:
    layer = identity_layer("gelu")
    expected = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in POINTS]
    assert layer(torch.tensor([[POINTS]]), NO_TAPS).flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_biases_are_added_before_and_after_the_activation() -> None:
    layer = FeedForward(ModelConfig(vocab_size=5, d_model=1, n_heads=1, d_ff=1, mlp="relu"))
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), (2.0, 3.0, 5.0, 7.0), strict=True):
            parameter.fill_(value)
    assert layer(torch.tensor([[[1.0], [-2.0]]]), NO_TAPS).flatten().tolist() == [5 * (2 + 3) + 7, 7.0]


def test_points_show_the_value_before_and_after_the_activation_and_the_result() -> None:
    taps = Taps(record=["pre", "post", "out"])
    out = identity_layer("swiglu")(torch.tensor([[POINTS]]), taps)
    assert taps.recorded["pre"].flatten().tolist() == [*POINTS, -2.0, 1.0, 4.0]
    assert torch.equal(taps.recorded["post"], taps.recorded["out"])
    assert taps.recorded["out"] is out


def test_each_position_is_on_its_own() -> None:
    layer = FeedForward(ModelConfig(vocab_size=5, d_model=8, n_heads=1))
    x_BTD = torch.linspace(-1, 1, 2 * 3 * 8).view(2, 3, 8)
    alone = layer(x_BTD[1:, 2:], NO_TAPS)
    torch.testing.assert_close(layer(x_BTD, NO_TAPS)[1:, 2:], alone, atol=1e-6, rtol=0)


def test_dropout_acts_on_the_result_in_training_only() -> None:
    layer = identity_layer("relu", dropout=0.5)
    x_BTD = torch.ones(1, 200, 3)
    assert set(layer.train()(x_BTD, NO_TAPS).flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x_BTD, NO_TAPS), x_BTD)
