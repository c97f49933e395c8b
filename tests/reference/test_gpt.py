"""The forward pass: its names, shapes and laws. That it computes what torch does is in `tests/agreement`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from nextok.errors import InputError, ModelConfigError
from nextok.reference import forward, logits, next_token_loss
from nextok.reference.gpt import join_heads, split_heads
from nextok.spec import ModelConfig, hook_names

IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def test_every_hook_point_is_there_in_the_order_of_the_pass(case) -> None:
    config, weights, dialect = case
    assert list(forward(config, weights, IDS, dialect)) == hook_names(config)


def test_shapes_are_those_the_axes_say(gpt2) -> None:
    values = forward(*gpt2, IDS)
    shapes = {name.removeprefix("blocks.1."): value.shape for name, value in values.items()}
    assert shapes["logits"] == (2, 5, 11)
    assert shapes["embed.positions"] == (5, 8)
    assert shapes["resid_post"] == shapes["attn.out"] == (2, 5, 8)
    assert shapes["attn.q"] == shapes["attn.mixed"] == (2, 2, 5, 4)
    assert shapes["attn.pattern"] == (2, 2, 5, 5)
    assert shapes["mlp.pre"] == (2, 5, 32)


def test_every_value_has_the_precision_of_the_weights(case) -> None:
    config, weights, dialect = case
    weights = {name: weight.astype(np.float32) for name, weight in weights.items()}
    assert {value.dtype for value in forward(config, weights, IDS, dialect).values()} == {np.dtype(np.float32)}


def test_half_precision_has_a_mask_too(gpt2) -> None:
    config, weights = gpt2
    half = forward(config, {name: weight.astype(np.float16) for name, weight in weights.items()}, IDS)
    assert half["logits"].dtype == np.float16
    np.testing.assert_allclose(half["logits"], forward(config, weights, IDS)["logits"], atol=0.05)
    np.testing.assert_array_equal(np.triu(half["blocks.0.attn.pattern"], 1), 0)


def test_the_future_changes_nothing_before_it(case) -> None:
    config, weights, dialect = case
    changed = IDS.copy()
    changed[:, 3:] = 7
    before, after = (logits(config, weights, ids, dialect)[:, :3] for ids in (IDS, changed))
    assert np.allclose(before, after, rtol=0, atol=1e-12) == (config.mask == "causal")


def test_attention_is_a_distribution_over_the_past(case) -> None:
    config, weights, dialect = case
    pattern = forward(config, weights, IDS, dialect)["blocks.0.attn.pattern"]
    np.testing.assert_allclose(pattern.sum(axis=-1), 1)
    future = np.triu(pattern, 1)
    assert (future == 0).all() if config.mask == "causal" else (future[..., 0, 1:] > 0).all()


def test_a_tied_head_is_the_token_embedding(gpt2) -> None:
    config, weights = gpt2
    untied = replace(config, tied_head=False)
    same = logits(untied, {**weights, "head.weight": weights["embed.tokens.weight"]}, IDS)
    np.testing.assert_array_equal(same, logits(config, weights, IDS))


def test_capped_logits_stay_below_the_cap(gpt2) -> None:
    config, weights = gpt2
    raw, capped = logits(config, weights, IDS), logits(replace(config, logit_softcap=0.5), weights, IDS)
    assert np.abs(raw).max() > 0.5 > np.abs(capped).max()
    np.testing.assert_allclose(capped, 0.5 * np.tanh(raw / 0.5))


def test_missing_biases_are_biases_of_zero(gpt2) -> None:
    config, weights = gpt2
    zeroed = {name: weight * (not name.endswith("bias")) for name, weight in weights.items()}
    without = {name: weight for name, weight in weights.items() if not name.endswith("bias")}
    expected = logits(config, zeroed, IDS)
    np.testing.assert_array_equal(logits(replace(config, bias=False), without, IDS), expected)


def test_heads_are_cut_out_as_queries_keys_values_and_put_back_side_by_side() -> None:
    config = ModelConfig(vocab_size=1, d_model=4, n_heads=2)
    qkv_BTN = np.arange(12.0)[None, None]
    q, k, v = split_heads(qkv_BTN, config)
    assert q.tolist() == [[[[0, 1]], [[2, 3]]]]
    assert k.tolist() == [[[[4, 5]], [[6, 7]]]]
    np.testing.assert_array_equal(join_heads(v), qkv_BTN[..., 8:])


# --- the loss


def test_the_loss_by_hand() -> None:
    logits_BTV = np.log([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]]) + 3
    assert next_token_loss(logits_BTV, np.array([[0, 1]])) == pytest.approx(-(math.log(0.5) + math.log(0.8)) / 2)


def test_a_model_that_knows_nothing_has_a_loss_of_log_v() -> None:
    assert next_token_loss(np.zeros((2, 3, 50)), np.zeros((2, 3), dtype=int)) == pytest.approx(math.log(50))


@pytest.mark.parametrize("targets", [IDS[:, 1:], IDS[:, :1], IDS[0], IDS[:1]])
def test_targets_that_are_not_one_a_position_are_refused(gpt2, targets: np.ndarray) -> None:
    with pytest.raises(InputError, match="do not fit logits"):
        next_token_loss(logits(*gpt2, IDS), targets)


@pytest.mark.parametrize("target", [-100, -1, 11])
def test_a_target_outside_the_vocabulary_is_refused(gpt2, target: int) -> None:
    with pytest.raises(InputError, match=f"Token id {target} is not in 0 to 10"):
        next_token_loss(logits(*gpt2, IDS), np.full(IDS.shape, target))


# --- what it refuses


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (np.zeros((1, 0), dtype=int), "given 0 tokens; it takes 1 to 6"),
        (np.zeros((1, 7), dtype=int), "given 7 tokens; it takes 1 to 6"),
        (np.array([[1, -1]]), "Token id -1 is not in 0 to 10"),
        (np.array([[1, 11]]), "Token id 11 is not in 0 to 10"),
    ],
)
def test_ids_that_cannot_be_read_are_refused(gpt2, ids: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        forward(*gpt2, ids)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"norm": "rmsnorm"}, "norm = 'layernorm' only, not 'rmsnorm'"),
        ({"position": "rope"}, "position = 'learned' only, not 'rope'"),
        ({"qk_norm": True}, "qk_norm = False only, not True"),
        ({"mlp": "swiglu"}, "no swiglu; it has gelu, gelu_tanh, relu, relu2"),
    ],
)
def test_a_part_that_is_not_written_out_is_refused_by_name(parts: dict[str, object], said: str) -> None:
    with pytest.raises(ModelConfigError, match=said):
        forward(ModelConfig(vocab_size=5, **parts), {}, IDS)
