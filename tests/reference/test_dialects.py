"""The lessons' NumPy page gives the loss it prints, and each way in which it differs from GPT-2 moves it as known."""

from dataclasses import replace

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.reference import DIALECTS, Dialect, backward, lesson_b, logits, next_token_loss
from nextok.reference.ops import log_softmax

IDS, TARGETS = np.array([[5, 12, 3, 99, 44]]), np.array([[12, 3, 99, 44, 7]])
AS_PRINTED = DIALECTS["lesson-b"]
EPS_INSIDE = replace(AS_PRINTED, eps_outside=False)
FOUR_HEADS = {"n_heads": 4, "n_kv_heads": 4, "d_head": 8}


def test_lesson_b_as_printed() -> None:
    config, weights = lesson_b()
    logits_BTV = logits(config, weights, IDS, AS_PRINTED)
    assert next_token_loss(logits_BTV, TARGETS) == pytest.approx(4.6550573, abs=5e-8)
    losses = -np.take_along_axis(log_softmax(logits_BTV), TARGETS[..., None], axis=-1).ravel()
    np.testing.assert_allclose(losses, [4.5498, 4.6631, 4.5609, 4.6615, 4.8400], atol=5e-5)


def test_it_has_30_144_numbers_and_no_biases_in_its_maps() -> None:
    _, weights = lesson_b()
    assert sum(weight.size for weight in weights.values()) == 30_144
    assert {name.split(".")[-2] for name in weights if name.endswith("bias")} == {"norm1", "norm2", "final_norm"}
    assert {weight.dtype for weight in weights.values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("parts", "dialect", "loss"),
    [
        ({}, EPS_INSIDE, 4.6545796),
        (FOUR_HEADS, AS_PRINTED, 4.6550930),
        ({}, Dialect(eps_outside=True), 4.6550573),  # the mask of -inf
        ({"mlp": "gelu"}, AS_PRINTED, 4.6042756),
        ({"mlp": "gelu_tanh"}, AS_PRINTED, 4.6042753),
        ({"mlp": "gelu", **FOUR_HEADS}, EPS_INSIDE, 4.6042835),
    ],
)
def test_each_difference_from_gpt2_moves_the_loss_by_what_is_known(
    parts: dict[str, object], dialect: Dialect, loss: float
) -> None:
    config, weights = lesson_b()
    got = next_token_loss(logits(replace(config, **parts), weights, IDS, dialect), TARGETS)
    assert got == pytest.approx(loss, abs=5e-8)


def test_first_losses_lie_in_a_band_around_log_v_and_not_on_it() -> None:
    losses = []
    for seed in range(200):
        config, weights = lesson_b(seed)
        losses.append(next_token_loss(logits(config, weights, IDS, AS_PRINTED), TARGETS))
    assert np.mean(losses) == pytest.approx(4.616, abs=5e-4)
    assert np.std(losses) == pytest.approx(0.048, abs=5e-4)


def test_a_large_number_as_mask_is_minus_infinity_after_the_softmax_but_does_not_fit_half_precision() -> None:
    config, weights = lesson_b()
    with_inf = logits(config, weights, IDS, replace(AS_PRINTED, masked_score=-np.inf))
    np.testing.assert_array_equal(logits(config, weights, IDS, AS_PRINTED), with_inf)
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.float32(AS_PRINTED.masked_score).astype(np.float16)


def test_gpt2_and_lesson_a_have_the_same_arithmetic() -> None:
    assert DIALECTS["gpt2"] == DIALECTS["lesson-a"] == Dialect()
    assert list(DIALECTS) == ["gpt2", "lesson-a", "lesson-b"]


def test_65_tokens_are_refused_and_so_is_one_that_leaves_no_target() -> None:
    config, weights = lesson_b()
    assert logits(config, weights, np.zeros((1, 64), dtype=int), AS_PRINTED).shape == (1, 64, 100)
    for tokens in (65, 0):
        with pytest.raises(InputError, match=f"given {tokens} tokens; it takes 1 to 64"):
            backward(config, weights, *np.zeros((2, 1, tokens), dtype=int), AS_PRINTED)
