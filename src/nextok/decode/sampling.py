"""From logits to one token, in a fixed order: the only sampler, for every model and command.

Bans and bias, repetition penalty, frequency and presence penalty, temperature, top-k, top-p, min-p, draw. Pure
functions: what they return depends on their arguments alone, and they never write into the logits. `filters` holds the
last three filters, `explain` tells a distribution made with `explain=True`.
Axes: V vocabulary, K ids that survive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int64
from numpy.typing import NDArray

from nextok.decode.config import SamplingConfig
from nextok.decode.filters import min_p, top_k, top_p
from nextok.decode.logprobs import largest_logit
from nextok.errors import ConfigError, NonFiniteError, PromptError

Ids = Sequence[int] | np.ndarray
"""Token ids as users hand them in: a list, a tuple, or an integer array of one axis."""

_N_EXAMPLES = 5
_FLOAT32 = np.finfo(np.float32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """What one filter took away."""

    filter: str
    """`bans` (with what a constraint forbids), `argmax` (temperature 0), `top_k`, `top_p` or `min_p`."""
    count: int
    """How many ids it removed."""
    examples: tuple[int, ...]
    """The likeliest of them, at most five, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """The ids that can be drawn and how likely each is."""

    ids: Int64[np.ndarray, " K"]
    """At least one id, ascending; those with probability 0, banned ones among them, may be left out."""
    probabilities: Float64[np.ndarray, " K"]
    """They sum to 1. An id with probability 0 is never drawn."""
    removals: tuple[Removal, ...] = ()
    """One for the bans and each filter that ran, in order; empty unless asked for."""


def distribution(
    logits_V: Float[np.ndarray, " V"],
    config: SamplingConfig,
    prompt_ids: Ids = (),
    output_ids: Ids = (),
    *,
    banned_ids: Sequence[int] = (),
    allowed_V: Bool[np.ndarray, " V"] | None = None,
    explain: bool = False,
) -> Distribution:
    """Returns the distribution of the next token.

    Args:
        logits_V: The model's logits over the ids that may come; rows that only pad the vocabulary are cut off before.
        config: The options.
        prompt_ids: The ids of the prompt, for the repetition penalty.
        output_ids: The ids drawn so far, for all penalties.
        banned_ids: Ids banned at this position, beside those of the options.
        allowed_V: True for ids that a constraint lets come here; None where there is none.
        explain: Record what each filter removed.

    Raises:
        ConfigError: if a banned or biased id is not in the vocabulary.
        PromptError: if bans and constraint leave no id.
        NonFiniteError: if the logits are not a distribution, or penalties and biases make one infinite.
    """
    largest_logit(logits_V)
    check_vocabulary(config, logits_V.size)
    adjusted_V = adjust(logits_V, config, prompt_ids, output_ids, banned_ids)
    if allowed_V is not None:
        adjusted_V = np.where(allowed_V, adjusted_V, np.float32(-np.inf))
    if adjusted_V is not logits_V:
        _check_adjusted(adjusted_V, constrained=allowed_V is not None)
    logits_K = _divide(adjusted_V, config.temperature)
    ids_K: NDArray[np.int64] | None = None  # all of them; a filter rarely leaves many
    removals = []
    if explain:
        # Told, not done: -inf has probability 0 and no filter keeps it, so that a copy of the vocabulary is saved.
        removals.append(_removal("bans", logits_K, logits_K == -np.inf))
    for name, keep in _filters(config):
        kept = keep(logits_K)
        if explain:
            lost_K = logits_K > -np.inf
            lost_K[kept] = False
            removals.append(_removal(name, logits_K, lost_K, ids_K))
        if kept.size < logits_K.size:
            ids_K, logits_K = kept if ids_K is None else ids_K[kept], logits_K[kept]
    if ids_K is None:
        ids_K = np.arange(logits_K.size)
    probabilities_K = np.exp(logits_K - logits_K.max()).astype(np.float64)
    probabilities_K /= probabilities_K.sum()
    return Distribution(ids=ids_K, probabilities=probabilities_K, removals=tuple(removals))


def draw(kept: Distribution, uniform: float) -> int:
    """Returns the first id, in ascending order, at which the cumulative probability (float64) exceeds `uniform`.

    Args:
        kept: The distribution.
        uniform: In [0, 1), from `rng.uniform(seed, "sample", choice, position)`.
    """
    cumulative_K = np.cumsum(kept.probabilities)
    # uniform is at most 1 - 2**-53, so the product rounds to less than the sum: the id found adds to it, and exists.
    return int(kept.ids[np.searchsorted(cumulative_K, uniform * cumulative_K[-1], side="right")])


def check_vocabulary(config: SamplingConfig, vocab_size: int) -> None:
    """Sees that the ids of the options are in a vocabulary of this size.

    Raises:
        ConfigError: for one that is not.
    """
    biased_ids = [id for id, _ in config.logit_bias]
    named = (("banned_ids", config.banned_ids), ("stop_ids", config.stop_ids), ("logit_bias", biased_ids))
    for name, ids in named:
        if ids and max(ids) >= vocab_size:
            raise ConfigError(f"{name} holds the id {max(ids)}; the vocabulary has ids 0 to {vocab_size - 1}.")


def adjust(
    logits_V: Float[np.ndarray, " V"],
    config: SamplingConfig,
    prompt_ids: Ids = (),
    output_ids: Ids = (),
    banned_ids: Sequence[int] = (),
) -> Float32[np.ndarray, " V"]:
    """Returns the logits after bans, biases and penalties: the logits themselves where there are none, else a copy."""
    adjusted_V = logits_V.astype(np.float32, copy=False)
    if not (banned_ids or config.banned_ids or config.logit_bias or _penalises(config)):
        return adjusted_V
    adjusted_V = adjusted_V.copy()
    with np.errstate(over="ignore"):  # the caller refuses what became infinite
        adjusted_V[[*banned_ids, *config.banned_ids]] = -np.inf
        for id, bias in config.logit_bias:
            adjusted_V[id] += bias
        if config.repetition_penalty != 1:
            seen = np.unique(np.concatenate([_as_array(prompt_ids), _as_array(output_ids)]))
            adjusted_V[seen] = penalise_repetition(adjusted_V[seen], config.repetition_penalty)
        if config.frequency_penalty or config.presence_penalty:
            written, counts = np.unique(_as_array(output_ids), return_counts=True)
            adjusted_V[written] -= (config.frequency_penalty * counts + config.presence_penalty).astype(np.float32)
    return adjusted_V


def penalise_repetition(logits_K: Float32[np.ndarray, " K"], penalty: float) -> Float32[np.ndarray, " K"]:
    """Returns the logits of ids seen, each moved down by a penalty above 1: [2, -1] becomes [1, -2] at penalty 2."""
    return np.where(logits_K > 0, logits_K / np.float32(penalty), logits_K * np.float32(penalty))


def _penalises(config: SamplingConfig) -> bool:
    return config.repetition_penalty != 1 or config.frequency_penalty != 0 or config.presence_penalty != 0


def _check_adjusted(adjusted_V: np.ndarray, *, constrained: bool) -> None:
    largest = adjusted_V.max()
    if largest == -np.inf and constrained:
        message = "The constraint and the banned ids leave no token to draw."
        raise PromptError(message, "Ban fewer ids, or give a grammar that this vocabulary can spell.")
    if largest == -np.inf:
        raise PromptError("The banned ids leave no token to draw.", "Ban fewer ids, or lower min_new_tokens.")
    if not np.isfinite(largest):
        raise NonFiniteError("The penalties or biases make a logit infinite.", "Choose smaller ones.")


def _divide(logits_V: np.ndarray, temperature: float) -> np.ndarray:
    """Returns the logits divided by the temperature, less a constant, so that the largest is 0; unchanged at 0."""
    if temperature == 0:
        return logits_V
    with np.errstate(over="ignore"):  # far below the largest, at a tiny temperature: -inf, which is the limit
        below_largest_V = logits_V - logits_V.max()
        below_largest_V /= np.float32(np.clip(temperature, _FLOAT32.tiny, _FLOAT32.max))
    return below_largest_V


_Filter = Callable[[np.ndarray], np.ndarray]


def _filters(config: SamplingConfig) -> list[tuple[str, _Filter]]:
    """Returns the filters that run, in order, each from logits to the ascending indices kept."""
    if config.temperature == 0:
        return [("argmax", lambda logits_K: logits_K.argmax(keepdims=True))]
    steps: list[tuple[str, _Filter]] = []
    if config.top_k:
        steps.append(("top_k", lambda logits_K: top_k(logits_K, config.top_k)))
    if config.top_p < 1:
        steps.append(("top_p", lambda logits_K: top_p(logits_K, config.top_p)))
    if config.min_p:
        steps.append(("min_p", lambda logits_K: min_p(logits_K, config.min_p)))
    return steps


def _removal(name: str, logits_K: np.ndarray, lost_K: np.ndarray, ids_K: np.ndarray | None = None) -> Removal:
    lost = np.flatnonzero(lost_K)
    best = lost[np.argsort(-logits_K[lost], kind="stable")[:_N_EXAMPLES]]
    return Removal(filter=name, count=lost.size, examples=tuple((best if ids_K is None else ids_K[best]).tolist()))


def _as_array(ids: Ids) -> np.ndarray:
    return np.asarray(ids, dtype=np.int64)
