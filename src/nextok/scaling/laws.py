"""The parametric law of the loss, L(N, D) = E + A / N^alpha + B / D^beta, and everything that follows from it exactly.

N counts parameters, D training tokens, C = 6 N D training operations; losses are nats a token. Which parameters N
counts is settled by whoever fitted the law. At fixed C the loss has one minimum, at

    G = (alpha A / (beta B))^(1 / (alpha + beta))
    N* = G (C / 6)^a      a = beta / (alpha + beta)
    D* = (C / 6)^b / G    b = alpha / (alpha + beta)

An N* belongs to the D* of the same law: D* is computed from N* here, never taken from another rule.
"""

import math
from dataclasses import dataclass

from nextok.errors import InputError

FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""A multiply-add forward (2) and two backward (4): the 6 of C = 6 N D."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParametricLaw:
    """L(N, D) = E + A / N^alpha + B / D^beta, in nats a token."""

    E: float
    """Loss that neither parameters nor data take away, nats a token; at least 0."""
    A: float
    """Size of the parameter term; above 0. In the units of N^alpha nats."""
    B: float
    """Size of the data term; above 0. In the units of D^beta nats."""
    alpha: float
    """Exponent of the parameters; above 0."""
    beta: float
    """Exponent of the tokens; above 0."""

    def __post_init__(self) -> None:
        for name in ("A", "B", "alpha", "beta"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value > 0, f"{name} = {value} is not above 0.")
        _require(math.isfinite(self.E) and self.E >= 0, f"E = {self.E} is negative.")

    @property
    def a(self) -> float:
        """Exponent of N* in C: beta / (alpha + beta)."""
        return self.beta / (self.alpha + self.beta)

    @property
    def b(self) -> float:
        """Exponent of D* in C: alpha / (alpha + beta); a + b = 1."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def G(self) -> float:  # noqa: N802 - the paper's letter
        """The factor of N*: (alpha A / (beta B))^(1 / (alpha + beta))."""
        log_ratio = math.log(self.alpha * self.A) - math.log(self.beta * self.B)
        return math.exp(log_ratio / (self.alpha + self.beta))

    def loss(self, N: float, D: float) -> float:
        """Returns L(N, D) in nats a token."""
        return self.E + self.A * N**-self.alpha + self.B * D**-self.beta

    def optimum(self, C: float) -> tuple[float, float]:
        """Returns the N and D of least loss among those with 6 N D = C."""
        _require(math.isfinite(C) and C > 0, f"C = {C} is not above 0.")
        N = self.G * (C / FLOPS_PER_PARAMETER_AND_TOKEN) ** self.a
        return N, C / (FLOPS_PER_PARAMETER_AND_TOKEN * N)

    def compute_for_parameters(self, N: float) -> float:
        """Returns the C whose optimum has this N."""
        _require(math.isfinite(N) and N > 0, f"N = {N} is not above 0.")
        return FLOPS_PER_PARAMETER_AND_TOKEN * (N / self.G) ** (1 / self.a)

    def compute_for_tokens(self, D: float) -> float:
        """Returns the C whose optimum has this D."""
        _require(math.isfinite(D) and D > 0, f"D = {D} is not above 0.")
        return FLOPS_PER_PARAMETER_AND_TOKEN * (D * self.G) ** (1 / self.b)

    def tokens_for_loss(self, N: float, loss: float) -> float | None:
        """Returns the D with which N parameters reach the loss, or None where no amount of data does."""
        left = loss - self.E - self.A * N**-self.alpha
        return (self.B / left) ** (1 / self.beta) if left > 0 else None

    def compute_for_loss(self, loss: float) -> float | None:
        """Returns the least C that reaches the loss, or None at and below E."""
        if loss <= self.E:
            return None
        # both terms are powers of C at the optimum, with the same exponent: loss - E = k (C / 6)^(-alpha a)
        N, D = self.optimum(FLOPS_PER_PARAMETER_AND_TOKEN)
        excess_at_six = self.loss(N, D) - self.E
        return FLOPS_PER_PARAMETER_AND_TOKEN * (excess_at_six / (loss - self.E)) ** (1 / (self.alpha * self.a))


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise InputError(f"This scaling law cannot be used: {message}")
