"""What repeated text is worth: the data-constrained law of Muennighoff et al. 2023 (arXiv 2305.16264).

With U unique tokens, read R = D / U - 1 times more than once, D tokens count as

    D' = U + U R* (1 - exp(-R / R*)),     R* = 15.39

fresh ones, and parameters beyond the N that is compute-optimal for U count less in the same way. It was fitted to
models of 7M to 9B parameters with dropout 0.1 and weight decay 0.1, and by its form it never gets worse with epochs. A
model of a few million parameters on a few megabytes does: it learns the text by heart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from nextok.errors import InputError
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw
from nextok.scaling.search import crossing, lowest

_SPLIT_REACH = 4 * math.log(10)  # how far from the split with fresh text the one with repeats is looked for
_BUDGET_REACH = 6 * math.log(10)


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedData:
    """L(N', D') of a parametric law, for a limited number of unique tokens."""

    base: ParametricLaw
    """The law for fresh text."""
    unique_tokens: float
    """Tokens there are [U]; above 0."""
    epochs_constant: float = 15.387756
    """R* of the data: epochs after which a repeated token is worth 1/e of a fresh one. Source: the paper's code."""
    parameters_constant: float = 5.309743
    """R* of the parameters beyond the optimum for U. Source: the paper's code."""

    def __post_init__(self) -> None:
        if not 0 < self.unique_tokens < math.inf:
            raise InputError(f"unique tokens = {self.unique_tokens} is not above 0.")

    def worth(self, epochs: float) -> float:
        """Returns the mean value of a token read over this many epochs, as a share of a fresh one; 1 up to one."""
        return _effective(epochs, 1.0, self.epochs_constant) / epochs

    def effective_tokens(self, D: float) -> float:
        """Returns how many fresh tokens D tokens of this text are worth [D']."""
        return _effective(D, min(D, self.unique_tokens), self.epochs_constant)

    def effective_parameters(self, N: float) -> float:
        """Returns how many parameters N are worth on this text [N']."""
        return _effective(N, min(N, self.parameters_for_unique), self.parameters_constant)

    @property
    def parameters_for_unique(self) -> float:
        """The N that is compute-optimal where all U tokens are read once."""
        return self.base.optimum(self.base.compute_for_tokens(self.unique_tokens))[0]

    def loss(self, N: float, D: float) -> float:
        """Returns the loss of N parameters after D tokens of this text, in nats a token."""
        return self.base.loss(self.effective_parameters(N), self.effective_tokens(D))

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of least loss among those with 6 N D = C; the base's own where U is enough."""
        N, D = self.base.optimum(C)
        if self.unique_tokens >= D:
            return N, D

        def at(log_N: float) -> float:
            return self.loss(math.exp(log_N), C / (FLOPS_PER_PARAMETER_AND_TOKEN * math.exp(log_N)))

        N = math.exp(lowest(at, math.log(N) - _SPLIT_REACH, math.log(N) + _SPLIT_REACH))
        return N, C / (FLOPS_PER_PARAMETER_AND_TOKEN * N)

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C whose optimum has this N."""
        return self._compute_where(lambda found_N, _: found_N, N, self.base.compute_for_parameters(N))

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C whose optimum has this D."""
        return self._compute_where(lambda _, found_D: found_D, D, self.base.compute_for_tokens(D))

    def _compute_where(self, pick: Callable[[float, float], float], wanted: float, near: float) -> float:
        def over(log_C: float) -> float:
            return math.log(pick(*self.optimum(math.exp(log_C)))) - math.log(wanted)

        return math.exp(crossing(over, math.log(near) - _BUDGET_REACH, math.log(near) + _BUDGET_REACH))


def _effective(used: float, unique: float, constant: float) -> float:
    repeats = used / unique - 1
    return used if repeats <= 0 else unique + unique * constant * (1 - math.exp(-repeats / constant))
