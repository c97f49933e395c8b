"""The backward pass against slopes measured on the forward pass, which knows nothing of derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.reference import backward, lesson_b, logits, next_token_loss
from nextok.reference.dialects import DIALECTS

WINDOW = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
IDS, TARGETS = WINDOW[:, :-1], WINDOW[:, 1:]


def assert_slopes(config, weights, dialect, slope, ids=IDS, targets=TARGETS) -> None:
    """Checks the gradient of every weight along a random direction of length 1, in which every entry has a part."""
    _, grads = backward(config, weights, ids, targets, dialect)
    assert grads.keys() == weights.keys()
    rng = np.random.default_rng(5)
    for name, weight in weights.items():

        def loss(moved, name=name) -> float:
            return next_token_loss(logits(config, {**weights, name: moved}, ids, dialect), targets)

        assert grads[name].shape == weight.shape
        direction = rng.normal(size=weight.shape)
        direction /= np.linalg.norm(direction)
        derived = (grads[name] * direction).sum()
        assert derived == pytest.approx(slope(loss, weight, direction), rel=1e-6, abs=1e-10), name


def test_every_gradient_is_the_measured_slope(case, slope) -> None:
    assert_slopes(*case, slope)


def test_every_gradient_of_the_lessons_model_is_the_measured_slope(slope) -> None:
    config, weights = lesson_b()
    assert "blocks.0.norm1.bias" in weights
    ids, targets = np.array([[5, 12, 3, 99, 44]]), np.array([[12, 3, 99, 44, 7]])
    assert_slopes(config, weights, DIALECTS["lesson-b"], slope, ids, targets)


def test_the_loss_comes_with_them(case) -> None:
    config, weights, dialect = case
    loss, _ = backward(config, weights, IDS, TARGETS, dialect)
    assert loss == next_token_loss(logits(config, weights, IDS, dialect), TARGETS)


def test_a_tied_head_adds_its_gradient_to_that_of_the_embedding(gpt2) -> None:
    config, weights = gpt2
    _, tied = backward(config, weights, IDS, TARGETS)
    own_head = {**weights, "head.weight": weights["embed.tokens.weight"]}
    _, untied = backward(replace(config, tied_head=False), own_head, IDS, TARGETS)
    np.testing.assert_allclose(tied["embed.tokens.weight"], untied["embed.tokens.weight"] + untied["head.weight"])


def test_what_was_not_used_has_no_gradient(random_weights, gpt2) -> None:
    config = replace(gpt2[0], tied_head=False)
    _, grads = backward(config, random_weights(config), IDS, TARGETS)
    used = np.isin(np.arange(config.vocab_size), IDS)
    np.testing.assert_array_equal((grads["embed.tokens.weight"] != 0).all(axis=1), used)
    np.testing.assert_array_equal((grads["embed.tokens.weight"] == 0).all(axis=1), ~used)
    assert (grads["embed.positions.weight"][5] == 0).all()
    assert (grads["embed.positions.weight"][:5] != 0).all()


def test_a_bias_of_the_keys_changes_nothing(gpt2) -> None:
    _, grads = backward(*gpt2, IDS, TARGETS)
    q, k, v = np.split(grads["blocks.0.attn.qkv.bias"], 3)
    assert np.abs(k).max() < 1e-15 < min(np.abs(q).max(), np.abs(v).max())


def test_gradients_have_the_precision_of_the_weights(case) -> None:
    config, weights, dialect = case
    _, grads = backward(
        config, {name: weight.astype(np.float32) for name, weight in weights.items()}, IDS, TARGETS, dialect
    )
    assert {grad.dtype for grad in grads.values()} == {np.dtype(np.float32)}
    _, exact = backward(config, weights, IDS, TARGETS, dialect)
    for name, grad in grads.items():
        np.testing.assert_allclose(grad, exact[name], atol=1e-5, err_msg=name)


def test_targets_that_were_shifted_twice_are_refused(gpt2) -> None:
    with pytest.raises(InputError, match="do not fit logits"):
        backward(*gpt2, IDS, TARGETS[:, 1:])
