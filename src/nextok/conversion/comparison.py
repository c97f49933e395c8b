"""Whether two models compute the same: their logits on fixed sequences, in one small record."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from nextok.decode import log_softmax_rows

_SEQUENCES = 4
_TOKENS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The logits of two models for the same ids."""

    tokens: int
    """Positions compared."""
    max_logit_difference: float
    """The largest of all; NaN where one of them is not finite."""
    argmax_agreement: float
    """Share of positions whose most likely token is the same, 0 to 1."""
    mean_kl_nats: float
    """Kullback-Leibler divergence of the second model from the first, mean over positions."""


def fixed_ids(context: int, vocab_size: int) -> Int64[np.ndarray, "B T"]:
    """Returns the ids that conversions are compared on: the same for every model of that vocabulary and context."""
    shape = (_SEQUENCES, min(context, _TOKENS))
    return np.random.default_rng(0).integers(0, vocab_size, shape, dtype=np.int64)


def compare(expected_NV: Float32[np.ndarray, "N V"], got_NV: Float32[np.ndarray, "N V"]) -> Comparison:
    """Returns how far the second logits are from the first."""
    expected_logprobs_NV = log_softmax_rows(expected_NV.astype(np.float64))
    got_logprobs_NV = log_softmax_rows(got_NV.astype(np.float64))
    kl_N = (np.exp(expected_logprobs_NV) * (expected_logprobs_NV - got_logprobs_NV)).sum(-1)
    return Comparison(
        tokens=len(expected_NV),
        max_logit_difference=float(np.abs(expected_NV - got_NV).max()),
        argmax_agreement=float((expected_NV.argmax(-1) == got_NV.argmax(-1)).mean()),
        mean_kl_nats=max(0.0, float(kl_N.mean())),  # a rounding can make it -1e-17
    )
