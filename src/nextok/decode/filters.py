"""Which candidates survive top-k, top-p and min-p: pure functions from logits to the indices kept.

All take the logits of K candidates, at least one above -inf and none NaN, and return ascending indices: at least one,
and never one at -inf. None sorts the whole vocabulary: at V = 50,257 a sort costs more than the rest of the sampler.
Axes: K candidates.
"""

import numpy as np
from jaxtyping import Float, Int64

_BINS = 4096
_BINS_PER_NAT = 128


def top_k(logits_K: Float[np.ndarray, " K"], k: int) -> Int64[np.ndarray, " kept"]:
    """Returns the indices of the k largest logits; of equal ones at the border the lowest indices. k is 1 or more."""
    border = -np.inf
    if k < logits_K.size:
        border = np.partition(logits_K, logits_K.size - k)[logits_K.size - k]
    above = np.flatnonzero(logits_K > border)
    if border == -np.inf:
        return above
    at_border = np.flatnonzero(logits_K == border)[: k - above.size]
    return np.sort(np.concatenate([above, at_border]))


def top_p(logits_K: Float[np.ndarray, " K"], p: float) -> Int64[np.ndarray, " kept"]:
    """Returns the indices of the smallest set of likeliest candidates whose probability reaches p, 0 < p <= 1.

    A candidate is kept if the mass of the likelier ones is below p, so the one that crosses p stays and the likeliest
    always does. Equal logits rank by index, lowest first.

    The candidates are binned by logit; only the bin in which the mass crosses p is sorted, so a flat distribution costs
    no more than a peaked one.
    """
    below_largest_K = logits_K - logits_K.max()
    weights_K = np.exp(below_largest_K).astype(np.float64)
    # int32, because NumPy converts float32 to it ten times as fast as to int64.
    bins_K = (np.maximum(below_largest_K, (1 - _BINS) / _BINS_PER_NAT) * -_BINS_PER_NAT).astype(np.int32)
    mass = np.cumsum(np.bincount(bins_K, weights=weights_K, minlength=_BINS))
    wanted = p * mass[-1]
    crossing = int(np.searchsorted(mass, wanted))
    before = mass[crossing - 1] if crossing else 0.0
    inside = np.flatnonzero((bins_K == crossing) & (weights_K > 0))
    ranked = inside[np.argsort(-logits_K[inside], kind="stable")]
    n_kept = int(np.searchsorted(before + np.cumsum(weights_K[ranked]), wanted)) + 1
    kept_K = bins_K < crossing
    kept_K[ranked[:n_kept]] = True
    return np.flatnonzero(kept_K)


def min_p(logits_K: Float[np.ndarray, " K"], p: float) -> Int64[np.ndarray, " kept"]:
    """Returns the indices of the candidates at least p times as likely as the likeliest, 0 < p <= 1.

    Source: Nguyen et al. 2024, "Turning up the heat: min-p sampling", section 3.
    """
    return np.flatnonzero(np.exp(logits_K - logits_K.max()) >= p)
