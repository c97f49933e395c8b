"""What it costs to leave the optimum on purpose: a smaller model trained longer, and the size that serving makes best.

Both hold the loss fixed, so both need a parametric law, and its constants matter more than anything else here.
"""

import math
from dataclasses import dataclass

from nextok.errors import InputError
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw
from nextok.scaling.search import lowest

FLOPS_PER_PARAMETER_AND_INFERENCE_TOKEN = 2
"""A multiply-add: inference has no backward pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherSize:
    """A model of k times the compute-optimal N that is trained to the same loss."""

    parameters_factor: float
    """k = N / N*."""
    tokens_factor: float | None
    """D / D*; None where no amount of data reaches the loss."""
    smallest_factor: float
    """The k below which none does."""

    @property
    def compute_overhead(self) -> float | None:
        """Compute beyond the optimum's, as a share of it."""
        return None if self.tokens_factor is None else self.parameters_factor * self.tokens_factor - 1


def other_size(law: ParametricLaw, parameters_factor: float) -> OtherSize:
    """Returns what a model of k times the optimal N costs at the optimum's loss; the same at every C.

    At the optimum alpha A / N^alpha = beta B / D^beta, so the share of D follows from k alone:
    D / D* = (1 - (beta / alpha) (k^-alpha - 1))^(-1 / beta).  Source: de Vries 2023.

    Raises:
        InputError: for a factor that is not above 0.
    """
    if not 0 < parameters_factor < math.inf:
        raise InputError(f"A model of {parameters_factor} times the optimal size is none: the factor must be above 0.")
    left = 1 - law.beta / law.alpha * (parameters_factor**-law.alpha - 1)
    return OtherSize(
        parameters_factor=parameters_factor,
        tokens_factor=left ** (-1 / law.beta) if left > 0 else None,
        smallest_factor=(1 + law.alpha / law.beta) ** (-1 / law.alpha),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """The model that is cheapest to train and serve together, at the loss of a compute-optimal one."""

    parameters: float
    """N."""
    tokens: float
    """D, training tokens."""
    parameters_factor: float
    """N over that of the compute-optimal model."""
    tokens_factor: float
    """D over that of the compute-optimal model."""
    flops: float
    """Training and serving, 6 N D + 2 N (tokens served)."""
    saving: float
    """Share saved against the compute-optimal model, serving included."""


def cheapest_served(law: ParametricLaw, C: float, inference_tokens: float) -> Served:
    """Returns the model of least 6 N D + 2 N D_inference at the loss that C reaches.

    Args:
        law: Whose loss is held.
        C: Training compute of the compute-optimal model, FLOP.
        inference_tokens: Tokens read and written in its lifetime; at least 0.

    Raises:
        InputError: for a negative number of tokens.

    Source: Sardana et al. 2023 (arXiv 2401.00448). Serving only ever makes the best model smaller, so it is looked for
    between the size below which no data reaches the loss and the optimum.
    """
    if not 0 <= inference_tokens < math.inf:
        raise InputError(f"inference tokens = {inference_tokens} is below 0.")
    best_N, best_D = law.optimum(C)

    def flops(log_k: float) -> float:
        tokens_factor = other_size(law, math.exp(log_k)).tokens_factor
        if tokens_factor is None:
            return math.inf
        return _flops(math.exp(log_k) * best_N, tokens_factor * best_D, inference_tokens)

    k = math.exp(lowest(flops, math.log(other_size(law, 1.0).smallest_factor), 0.0))
    tokens_factor = other_size(law, k).tokens_factor
    assert tokens_factor is not None, "the search ended where the loss cannot be reached"
    N, D = k * best_N, tokens_factor * best_D
    return Served(
        parameters=N,
        tokens=D,
        parameters_factor=k,
        tokens_factor=tokens_factor,
        flops=_flops(N, D, inference_tokens),
        saving=1 - _flops(N, D, inference_tokens) / _flops(best_N, best_D, inference_tokens),
    )


def _flops(N: float, D: float, inference_tokens: float) -> float:
    return FLOPS_PER_PARAMETER_AND_TOKEN * N * D + FLOPS_PER_PARAMETER_AND_INFERENCE_TOKEN * N * inference_tokens
