"""Adam by hand, and that it learns what comes next. That its steps are torch's is in `tests/agreement`."""

import math

import numpy as np
import pytest

from nextok.reference import Adam, backward, logits
from nextok.spec import ModelConfig


def test_two_steps_by_hand() -> None:
    adam = Adam(lr=0.1)
    one = adam.step({"w": np.array([1.0])}, {"w": np.array([0.5])})
    assert one["w"][0] == pytest.approx(1 - 0.1 * 0.5 / (0.5 + 1e-8), rel=1e-14)
    two = adam.step(one, {"w": np.array([-0.25])})
    mean = (0.9 * 0.05 - 0.1 * 0.25) / (1 - 0.9**2)
    square = (0.999 * 0.00025 + 0.001 * 0.0625) / (1 - 0.999**2)
    assert two["w"][0] == pytest.approx(one["w"][0] - 0.1 * mean / (math.sqrt(square) + 1e-8), rel=1e-12)


def test_the_first_step_goes_the_step_size_against_the_sign_whatever_the_gradients_size() -> None:
    moved = Adam(lr=0.1).step({"w": np.zeros(3)}, {"w": np.array([1e-3, -1e3, 0.0])})
    np.testing.assert_allclose(moved["w"], [-0.1, 0.1, 0], rtol=1e-4)


def test_what_it_was_given_stays_as_it_was() -> None:
    weights, grads = {"w": np.ones(2)}, {"w": np.ones(2)}
    adam = Adam(lr=0.1)
    adam.step(adam.step(weights, grads), grads)
    np.testing.assert_array_equal([weights["w"], grads["w"]], 1)


def test_float32_stays_float32() -> None:
    moved = Adam().step({"w": np.ones(2, np.float32)}, {"w": np.ones(2, np.float32)})
    assert moved["w"].dtype == np.float32


@pytest.mark.parametrize("option", [{"beta1": 0.5}, {"beta2": 0.5}, {"eps": 1.0}])
def test_every_option_changes_the_steps(option: dict[str, float]) -> None:
    def two_steps(**options: float) -> float:
        adam = Adam(lr=0.1, **options)
        return adam.step(adam.step({"w": np.ones(1)}, {"w": np.ones(1)}), {"w": np.full(1, 3.0)})["w"][0]

    assert abs(two_steps(**option) - two_steps()) > 1e-3


def test_a_model_learns_the_letter_after_each_and_not_the_one_after_that(random_weights) -> None:
    config = ModelConfig(vocab_size=3, n_layers=1, d_model=8, n_heads=2, context=6)
    weights, adam = random_weights(config), Adam(lr=0.02)
    window = np.arange(7)[None] % 3
    losses = []
    for _ in range(60):
        loss, grads = backward(config, weights, window[:, :-1], window[:, 1:])
        weights = adam.step(weights, grads)
        losses.append(loss)
    assert losses[0] > 0.9
    assert losses[-1] < 0.05
    assert logits(config, weights, window[:, :6])[0].argmax(axis=-1).tolist() == [1, 2, 0, 1, 2, 0]
