"""The forward pass of a GPT in NumPy, one line of the formula at a time.

B sequences of T tokens; D width, H heads of width K, F feed-forward width, V vocabulary. Every value on the way is kept
under the name it has in `nextok.spec.hooks`, because the backward pass needs them and a reader wants to see them.
Nothing is dropped out, whatever the config says.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int

from nextok.errors import InputError, ModelConfigError
from nextok.reference.dialects import Dialect
from nextok.reference.ops import ACTIVATIONS, Array, layer_norm, log_softmax, softmax
from nextok.spec import ModelConfig

Weights = Mapping[str, Array]
Values = dict[str, Array]
GPT2 = Dialect()


def forward(config: ModelConfig, weights: Weights, ids_BT: Int[np.ndarray, "B T"], dialect: Dialect = GPT2) -> Values:
    """Returns every value of the forward pass by the name of its hook point, `logits` among them.

    Args:
        config: Any with LayerNorm and learned positions, but for normalised queries and keys; see `check_supported`.
        weights: By native name and shape, such as `nextok.model.weight_arrays`; their dtype is that of all values.
        ids_BT: Token ids.
        dialect: What of the arithmetic is not GPT-2's.

    Raises:
        ModelConfigError: for a model this room does not write out.
        InputError: for an id outside the vocabulary, no ids, or more than the context.
    """
    check_supported(config)
    T = ids_BT.shape[1]
    if not 1 <= T <= config.context:
        raise InputError(f"The model was given {T} tokens; it takes 1 to {config.context}.")
    _check_ids(ids_BT, config.vocab_size)
    values: Values = {}
    values["embed.tokens"] = weights["embed.tokens.weight"][ids_BT]
    values["embed.positions"] = weights["embed.positions.weight"][:T]
    x_BTD: Array = values["embed.tokens"] + values["embed.positions"]
    values["embed"] = x_BTD
    for layer in range(config.n_layers):
        x_BTD = _block(config, weights, x_BTD, f"blocks.{layer}", values, dialect)
    if config.has_final_norm:
        x_BTD = values["final_norm"] = norm(config, weights, "final_norm", x_BTD, dialect)
    values["logits"] = unembed(config, weights, x_BTD)
    return values


def logits(
    config: ModelConfig, weights: Weights, ids_BT: Int[np.ndarray, "B T"], dialect: Dialect = GPT2
) -> Float[np.ndarray, "B T V"]:
    """Returns the logits of the next token at every position."""
    return forward(config, weights, ids_BT, dialect)["logits"]


def next_token_loss(logits_BTV: Float[np.ndarray, "B T V"], targets_BT: Int[np.ndarray, "..."]) -> float:
    """Returns the mean of -log P(target) in nats: L = -(1/n) sum log softmax(logits)[target].

    Targets are already the next tokens; nothing is shifted here.

    Raises:
        InputError: if the targets are not one a position, as when they were shifted a second time, or no ids.
    """
    if logits_BTV.shape[:2] != targets_BT.shape:
        raise InputError(f"Targets of shape {targets_BT.shape} do not fit logits of {logits_BTV.shape}.")
    _check_ids(targets_BT, logits_BTV.shape[-1])
    logprobs_BTV = log_softmax(logits_BTV)
    return float(-np.take_along_axis(logprobs_BTV, targets_BT[..., None], axis=-1).mean())


def _block(config: ModelConfig, weights: Weights, x_BTD: Array, name: str, values: Values, dialect: Dialect) -> Array:
    def attention(inputs_BTD: Array) -> Array:
        return _attention(config, weights, inputs_BTD, f"{name}.attn", values, dialect)

    def feed_forward(inputs_BTD: Array) -> Array:
        return _feed_forward(config, weights, inputs_BTD, f"{name}.mlp", values)

    values[f"{name}.resid_pre"] = x_BTD
    x_BTD = _add(config, weights, x_BTD, f"{name}.norm1", attention, values, dialect)
    values[f"{name}.resid_mid"] = x_BTD
    x_BTD = _add(config, weights, x_BTD, f"{name}.norm2", feed_forward, values, dialect)
    values[f"{name}.resid_post"] = x_BTD
    return x_BTD


def _add(
    config: ModelConfig,
    weights: Weights,
    x_BTD: Array,
    norm_name: str,
    sublayer: Callable[[Array], Array],
    values: Values,
    dialect: Dialect,
) -> Array:
    """Returns x + f(norm(x)) as in GPT-2, or norm(x + f(x)) as in GPT-1."""
    if config.norm_placement == "before":
        values[norm_name] = norm(config, weights, norm_name, x_BTD, dialect)
        return x_BTD + sublayer(values[norm_name])
    values[norm_name] = norm(config, weights, norm_name, x_BTD + sublayer(x_BTD), dialect)
    return values[norm_name]


def _attention(
    config: ModelConfig, weights: Weights, x_BTD: Array, name: str, values: Values, dialect: Dialect
) -> Array:
    q, k, v = split_heads(linear(weights, f"{name}.qkv", x_BTD), config)  # [B, H, T, K], and G heads of k and v
    scores_BHTS = q @ share_heads(k, config).swapaxes(-1, -2)
    scaled_BHTS = scores_BHTS / math.sqrt(config.d_head)
    masked_BHTS = scaled_BHTS
    if config.mask == "causal":  # before the softmax, so that the future takes no share of the sum
        masked_BHTS = np.where(causal_mask(q.shape[2]), scaled_BHTS, dialect.masked_score)
    pattern_BHTS = softmax(masked_BHTS)
    mixed_BHTK = pattern_BHTS @ share_heads(v, config)
    out_BTD = linear(weights, f"{name}.out", join_heads(mixed_BHTK))
    named = {"q": q, "k": k, "v": v, "scores": scores_BHTS, "scaled": scaled_BHTS, "masked": masked_BHTS}
    named |= {"pattern": pattern_BHTS, "mixed": mixed_BHTK, "out": out_BTD}
    values.update({f"{name}.{part}": value for part, value in named.items()})
    return out_BTD


def _feed_forward(config: ModelConfig, weights: Weights, x_BTD: Array, name: str, values: Values) -> Array:
    activation, _ = ACTIVATIONS[config.mlp]
    values[f"{name}.pre"] = linear(weights, f"{name}.up", x_BTD)
    values[f"{name}.post"] = activation(values[f"{name}.pre"])
    values[f"{name}.out"] = linear(weights, f"{name}.down", values[f"{name}.post"])
    return values[f"{name}.out"]


def linear(weights: Weights, name: str, x: Array) -> Array:
    """Returns x W^T + b, or x W^T where there is no bias; W is `[out, in]`."""
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)


def norm(config: ModelConfig, weights: Weights, name: str, x: Array, dialect: Dialect) -> Array:
    """Returns the named LayerNorm of x, without a bias where there is none."""
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias", 0.0)
    return layer_norm(x, weight, bias, config.norm_eps, eps_outside=dialect.eps_outside)


def unembed(config: ModelConfig, weights: Weights, x: Array) -> Array:
    """Returns the logits of what has passed the last norm, through the soft cap where there is one."""
    raw = x @ head_weight(config, weights).T
    cap = config.logit_softcap
    return cap * np.tanh(raw / cap) if cap else raw


def head_weight(config: ModelConfig, weights: Weights) -> Float[np.ndarray, "V D"]:
    """Returns the matrix of the logits: the head's own, or the token embedding where they are tied."""
    return weights["embed.tokens.weight" if config.tied_head else "head.weight"]


def split_heads(qkv_BTN: Array, config: ModelConfig) -> list[Array]:
    """Returns queries `[B, H, T, K]`, keys and values `[B, G, T, K]` from rows that hold all three, in this order."""
    B, T, _ = qkv_BTN.shape
    heads_BNTK = qkv_BTN.reshape(B, T, -1, config.d_head).transpose(0, 2, 1, 3)
    H, G = config.n_heads, config.n_kv_heads
    return np.split(heads_BNTK, [H, H + G], axis=1)


def share_heads(x_BGSK: Array, config: ModelConfig) -> Array:
    """Returns keys or values with each of the G heads standing for H / G query heads in a row, `[B, H, S, K]`."""
    return np.repeat(x_BGSK, config.n_heads // config.n_kv_heads, axis=1)


def join_heads(x_BHTK: Array) -> Array:
    """Returns the heads side by side, `[B, T, H K]`."""
    B, H, T, K = x_BHTK.shape
    return x_BHTK.transpose(0, 2, 1, 3).reshape(B, T, H * K)


def causal_mask(T: int) -> np.ndarray:
    """Returns True where a query (row) may look: at its own position and before, `[T, T]`."""
    return np.tril(np.ones((T, T), dtype=bool))


def check_supported(config: ModelConfig) -> None:
    """Refuses a model that this room does not write out.

    Raises:
        ModelConfigError: naming the part.
    """
    wanted = {"norm": "layernorm", "position": "learned", "qk_norm": False, "bigrams": 0}
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ModelConfigError(f"The NumPy model has {name} = {value!r} only, not {getattr(config, name)!r}.")
    if config.mlp not in ACTIVATIONS:
        raise ModelConfigError(f"The NumPy model has no {config.mlp}; it has {', '.join(ACTIVATIONS)}.")


def _check_ids(ids: np.ndarray, vocab_size: int) -> None:
    outside = ids[(ids < 0) | (ids >= vocab_size)]  # NumPy would count a negative one from the end
    if outside.size:
        raise InputError(f"Token id {outside[0]} is not in 0 to {vocab_size - 1}, the model's vocabulary.")
