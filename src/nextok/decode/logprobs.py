"""Log-probabilities of the raw distribution: the model's own, before bans, penalties, temperature and filters.

Nats, from a softmax over every id of the vocabulary given. The loop hands in logits without the rows that only pad it.
Axes: T positions, V vocabulary.
"""

import math

import numpy as np
from jaxtyping import Float, Float32, Int64

from nextok.decode.filters import top_k
from nextok.errors import NonFiniteError


def largest_logit(logits_V: Float[np.ndarray, " V"]) -> float:
    """Returns the largest logit, after seeing that the logits are a distribution.

    Raises:
        NonFiniteError: if one is NaN or +inf, or all are -inf.
    """
    largest = float(logits_V.max())  # NaN wins every maximum
    if not np.isfinite(largest):
        kind = "NaN" if np.isnan(largest) else "+infinity" if largest > 0 else "nothing but -infinity"
        hint = "The weights are damaged or training diverged; try an earlier checkpoint."
        raise NonFiniteError(f"The model's {logits_V.size} logits hold {kind}, so no token can be chosen.", hint)
    return largest


def log_softmax(logits_V: Float[np.ndarray, " V"]) -> Float32[np.ndarray, " V"]:
    """Returns the log-probability of every id, computed in float64.

    Raises:
        NonFiniteError: if the logits are not a distribution.
    """
    shifted_V = logits_V.astype(np.float64) - largest_logit(logits_V)
    with np.errstate(over="ignore"):  # below float32's range is -inf
        return (shifted_V - np.log(np.exp(shifted_V).sum())).astype(np.float32)


def log_softmax_rows(logits_NV: Float[np.ndarray, "N V"]) -> Float[np.ndarray, "N V"]:
    """Returns the log-probability of every id in every row, in the precision given; NaN where a row is not finite.

    For comparing whole distributions; text is made with the functions that refuse such rows.
    """
    shifted_NV = logits_NV - logits_NV.max(axis=-1, keepdims=True)
    return shifted_NV - np.log(np.exp(shifted_NV).sum(axis=-1, keepdims=True))


def token_logprob(logits_V: Float[np.ndarray, " V"], id: int) -> float:
    """Returns the log-probability of one id, within 1e-5 of `log_softmax` and five times as fast.

    Raises:
        NonFiniteError: if the logits are not a distribution.
    """
    largest = largest_logit(logits_V)
    return float(logits_V[id]) - largest - _log_mass(logits_V, largest)


def token_logprobs(logits_TV: Float[np.ndarray, "T V"], ids_T: Int64[np.ndarray, " T"]) -> Float32[np.ndarray, " T"]:
    """Returns the log-probability of one id a row, as for the tokens of a prompt.

    Row t of the logits must come from the ids before `ids_T[t]`: the shift is the caller's.

    Raises:
        NonFiniteError: if a row is not a distribution.
    """
    return np.array([token_logprob(row_V, int(id)) for row_V, id in zip(logits_TV, ids_T, strict=True)], np.float32)


def top_logprobs(logits_V: Float[np.ndarray, " V"], count: int) -> tuple[tuple[int, float], ...]:
    """Returns the `count` likeliest ids with their log-probabilities, best first, equal ones by id.

    Raises:
        NonFiniteError: if the logits are not a distribution.
    """
    if count == 0:
        return ()
    largest = largest_logit(logits_V)
    ids = top_k(logits_V, count)
    ranked = ids[np.argsort(-logits_V[ids], kind="stable")]
    log_mass = _log_mass(logits_V, largest)
    return tuple((int(id), float(logits_V[id]) - largest - log_mass) for id in ranked)


def _log_mass(logits_V: Float[np.ndarray, " V"], largest: float) -> float:
    with np.errstate(over="ignore"):  # -3e38 below 3e38 is -inf, and its weight 0
        weights_V = logits_V - logits_V.dtype.type(largest)
        np.exp(weights_V, out=weights_V)
    return math.log(weights_V.sum())  # NumPy sums in pairs: 50,257 roundings do not add up
