"""The backward pass: the gradient of the loss by every weight, written by hand, in the reverse order of `gpt.py`.

Each function takes the gradient of what a part gave out and returns that of what went in. Gradients of weights are put
into `grads` under the names the weights have.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from nextok.reference.dialects import Dialect
from nextok.reference.gpt import GPT2, Values, Weights, forward, head_weight, join_heads, next_token_loss, share_heads
from nextok.reference.ops import ACTIVATIONS, Array, layer_norm_backward, softmax, softmax_backward
from nextok.spec import ModelConfig

_Backward = Callable[[Array, Array], Array]
"""(gradient of what a sublayer gave out, its input) -> gradient of the input"""


def backward(
    config: ModelConfig,
    weights: Weights,
    ids_BT: Int[np.ndarray, "B T"],
    targets_BT: Int[np.ndarray, "..."],
    dialect: Dialect = GPT2,
) -> tuple[float, dict[str, Array]]:
    """Returns the mean loss in nats and its gradient by every weight, by name.

    Args:
        config: As for `forward`.
        weights: By native name.
        ids_BT: Inputs.
        targets_BT: The token after each input.
        dialect: As for `forward`.

    Raises:
        ModelConfigError, InputError: as `forward` and `next_token_loss`.
    """
    values = forward(config, weights, ids_BT, dialect)
    loss = next_token_loss(values["logits"], targets_BT)
    grads: dict[str, Array] = {}
    d_logits_BTV = _loss_backward(config, values["logits"], targets_BT)
    last_BTD = values[f"blocks.{config.n_layers - 1}.resid_post"]
    d_head_VD = np.einsum("btv,btd->vd", d_logits_BTV, values.get("final_norm", last_BTD))
    d_x_BTD = d_logits_BTV @ head_weight(config, weights)
    if config.has_final_norm:
        d_x_BTD = _norm_backward(config, weights, "final_norm", d_x_BTD, last_BTD, grads, dialect)
    for layer in reversed(range(config.n_layers)):
        d_x_BTD = _block_backward(config, weights, f"blocks.{layer}", d_x_BTD, values, grads, dialect)
    _embedding_backward(config, weights, ids_BT, d_x_BTD, d_head_VD, grads)
    return loss, grads


def _loss_backward(config: ModelConfig, logits_BTV: Array, targets_BT: np.ndarray) -> Array:
    """Softmax minus one-hot, over the number of targets; through the soft cap where there is one."""
    d_logits_BTV = softmax(logits_BTV)
    B, T = targets_BT.shape
    d_logits_BTV[np.arange(B)[:, None], np.arange(T), targets_BT] -= 1
    d_logits_BTV /= targets_BT.size
    cap = config.logit_softcap
    return d_logits_BTV * (1 - (logits_BTV / cap) ** 2) if cap else d_logits_BTV


def _block_backward(
    config: ModelConfig,
    weights: Weights,
    name: str,
    d_post_BTD: Array,
    values: Values,
    grads: dict[str, Array],
    dialect: Dialect,
) -> Array:
    def feed_forward(d_out_BTD: Array, x_BTD: Array) -> Array:
        return _feed_forward_backward(config, weights, f"{name}.mlp", d_out_BTD, x_BTD, values, grads)

    def attention(d_out_BTD: Array, x_BTD: Array) -> Array:
        return _attention_backward(config, weights, f"{name}.attn", d_out_BTD, x_BTD, values, grads)

    def add(d_out_BTD: Array, norm_name: str, x_name: str, out_name: str, sublayer: _Backward) -> Array:
        """A residual sum passes its gradient to both of its terms; the norm stands before or after it."""
        x_BTD = values[f"{name}.{x_name}"]
        norm_name = f"{name}.{norm_name}"
        if config.norm_placement == "before":
            d_normed_BTD = sublayer(d_out_BTD, values[norm_name])
            return d_out_BTD + _norm_backward(config, weights, norm_name, d_normed_BTD, x_BTD, grads, dialect)
        sum_BTD = x_BTD + values[f"{name}.{out_name}"]
        d_sum_BTD = _norm_backward(config, weights, norm_name, d_out_BTD, sum_BTD, grads, dialect)
        return d_sum_BTD + sublayer(d_sum_BTD, x_BTD)

    d_mid_BTD = add(d_post_BTD, "norm2", "resid_mid", "mlp.out", feed_forward)
    return add(d_mid_BTD, "norm1", "resid_pre", "attn.out", attention)


def _feed_forward_backward(
    config: ModelConfig,
    weights: Weights,
    name: str,
    d_out_BTD: Array,
    x_BTD: Array,
    values: Values,
    grads: dict[str, Array],
) -> Array:
    _, slope = ACTIVATIONS[config.mlp]
    d_post_BTF = _linear_backward(weights, f"{name}.down", d_out_BTD, values[f"{name}.post"], grads)
    d_pre_BTF = d_post_BTF * slope(values[f"{name}.pre"])
    return _linear_backward(weights, f"{name}.up", d_pre_BTF, x_BTD, grads)


def _attention_backward(
    config: ModelConfig,
    weights: Weights,
    name: str,
    d_out_BTD: Array,
    x_BTD: Array,
    values: Values,
    grads: dict[str, Array],
) -> Array:
    q, k, v, pattern = (values[f"{name}.{part}"] for part in ("q", "k", "v", "pattern"))
    B, H, T, K = q.shape
    d_joined = _linear_backward(weights, f"{name}.out", d_out_BTD, join_heads(values[f"{name}.mixed"]), grads)
    d_mixed_BHTK = d_joined.reshape(B, T, H, K).transpose(0, 2, 1, 3)
    d_pattern_BHTS = d_mixed_BHTK @ share_heads(v, config).swapaxes(-1, -2)
    # where the mask stands the pattern is 0, and with it the gradient
    d_scores_BHTS = softmax_backward(d_pattern_BHTS, pattern) / math.sqrt(config.d_head)
    d_q = d_scores_BHTS @ share_heads(k, config)
    d_k = _share_heads_backward(d_scores_BHTS.swapaxes(-1, -2) @ q, config)
    d_v = _share_heads_backward(pattern.swapaxes(-1, -2) @ d_mixed_BHTK, config)
    d_qkv = np.concatenate([join_heads(part) for part in (d_q, d_k, d_v)], axis=-1)
    return _linear_backward(weights, f"{name}.qkv", d_qkv, x_BTD, grads)


def _share_heads_backward(d_BHSK: Array, config: ModelConfig) -> Array:
    """A head of keys or values gets the sum over the query heads it stood for."""
    B, _, S, K = d_BHSK.shape
    return d_BHSK.reshape(B, config.n_kv_heads, -1, S, K).sum(axis=2)


def _linear_backward(weights: Weights, name: str, d_out: Array, x: Array, grads: dict[str, Array]) -> Array:
    grads[f"{name}.weight"] = np.einsum("bto,bti->oi", d_out, x)
    if f"{name}.bias" in weights:
        grads[f"{name}.bias"] = d_out.sum(axis=(0, 1))
    return d_out @ weights[f"{name}.weight"]


def _norm_backward(
    config: ModelConfig,
    weights: Weights,
    name: str,
    d_out: Array,
    x: Array,
    grads: dict[str, Array],
    dialect: Dialect,
) -> Array:
    weight = weights[f"{name}.weight"]
    d_x, d_weight, d_bias = layer_norm_backward(d_out, x, weight, config.norm_eps, eps_outside=dialect.eps_outside)
    grads[f"{name}.weight"] = d_weight
    if f"{name}.bias" in weights:
        grads[f"{name}.bias"] = d_bias
    return d_x


def _embedding_backward(
    config: ModelConfig,
    weights: Weights,
    ids_BT: np.ndarray,
    d_x_BTD: Array,
    d_head_VD: Array,
    grads: dict[str, Array],
) -> None:
    """A row of a table gets the sum over the places where it was looked up; a tied head adds its own part."""
    d_tokens_VD = np.zeros_like(weights["embed.tokens.weight"])
    np.add.at(d_tokens_VD, ids_BT, d_x_BTD)
    if config.tied_head:
        d_tokens_VD += d_head_VD
    else:
        grads["head.weight"] = d_head_VD
    d_positions = np.zeros_like(weights["embed.positions.weight"])
    d_positions[: ids_BT.shape[1]] = d_x_BTD.sum(axis=0)
    grads["embed.tokens.weight"], grads["embed.positions.weight"] = d_tokens_VD, d_positions
