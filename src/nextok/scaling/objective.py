"""What a fit makes small: the sum over runs of Huber's loss of log predicted minus log measured, as in Hoffmann 2022.

    r_i = logsumexp(e, a - alpha n_i, b - beta d_i) - log L_i        F = sum_i w_i Huber(r_i; delta)

n and d are log N and log D less their means over the runs, so a and b are log A and log B of an N and D counted in
units of the geometric mean. The constants are then of one size and nearly unrelated, and whether N is counted in ones
or in millions changes nothing. `theta` is (e, a, b, alpha, beta), e = log E.

Everything is written for many fits at once, a row each: starts, resamples, fits without one size. The axis is S.

The terms are summed, never averaged. An optimizer that stops at an absolute tolerance stops early on the mean of 240
terms of 1e-6; that is the error behind the published intervals of approach 3 (Besiroglu et al. 2024). The minimizer
here stops by the ratio of what a step can gain to F, which is the same for both.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nextok.errors import InputError
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.runs import Runs

HUBER_DELTA = 1e-3
"""Where Huber's loss turns from a square into a line. Source: Hoffmann et al. 2022, appendix D.4."""
CONSTANTS = 5
_LARGEST_LOG = 690.0  # exp of it is still a double

Thetas = Float[np.ndarray, "S 5"]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Where the runs lie: logarithms of N and D, less their means."""

    n: Float[np.ndarray, " R"]
    d: Float[np.ndarray, " R"]
    mean_log_n: float
    mean_log_d: float

    @classmethod
    def of(cls, runs: Runs) -> "Points":
        """Returns the places of these runs."""
        log_N_R, log_D_R = np.log(runs.N), np.log(runs.D)
        N_mean, D_mean = float(log_N_R.mean()), float(log_D_R.mean())
        return cls(log_N_R - N_mean, log_D_R - D_mean, N_mean, D_mean)

    def constants(self, theta_S5: Thetas) -> Thetas:
        """Returns E, A, B, alpha, beta of each row, infinite where they are beyond a double."""
        e_S, a_S, b_S, alpha_S, beta_S = theta_S5.T
        logs_S3 = np.stack([e_S, a_S + alpha_S * self.mean_log_n, b_S + beta_S * self.mean_log_d], axis=1)
        amounts_S3 = np.where(logs_S3 < _LARGEST_LOG, np.exp(np.minimum(logs_S3, _LARGEST_LOG)), np.inf)
        return np.concatenate([amounts_S3, theta_S5[:, 3:]], axis=1)

    def law(self, theta_5: Float[np.ndarray, " 5"]) -> ParametricLaw | None:
        """Returns the law of these values, or None: an exponent below 0, a constant beyond a double."""
        E, A, B, alpha, beta = (float(value) for value in self.constants(theta_5[None])[0])
        try:
            return ParametricLaw(E=E, A=A, B=B, alpha=alpha, beta=beta)
        except InputError:
            return None

    def theta(self, law: ParametricLaw) -> Float[np.ndarray, " 5"]:
        """Returns the values of a law with E above 0."""
        a = np.log(law.A) - law.alpha * self.mean_log_n
        b = np.log(law.B) - law.beta * self.mean_log_d
        return np.array([np.log(law.E), a, b, law.alpha, law.beta])


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Versions of the runs to fit side by side: how much each run counts, and its loss."""

    weight: Float[np.ndarray, "S R"]
    """0 leaves a run out, 2 is a run drawn twice."""
    log_loss: Float[np.ndarray, "S R"]

    @classmethod
    def of(cls, runs: Runs, weight_SR: Float[np.ndarray, "S R"]) -> "Samples":
        """Returns the runs with their own losses, weighted."""
        return cls(weight_SR, np.broadcast_to(np.log(runs.loss), weight_SR.shape))

    def __len__(self) -> int:
        return len(self.weight)

    def rows(self, chosen: np.ndarray | slice) -> "Samples":
        """Returns some of the versions."""
        return Samples(self.weight[chosen], self.log_loss[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """First and second derivatives of the objective."""

    gradient: Thetas
    hessian: Float[np.ndarray, "S 5 5"]
    upper: Float[np.ndarray, "S 5 5"]
    """Second derivatives of reweighted squares that touch the objective from above; never indefinite."""


def predicted_log_loss(theta_S5: Thetas, points: Points) -> Float[np.ndarray, "S R"]:
    """Returns log L of every run under every row."""
    return _terms(theta_S5, points)[0]


def objective(
    theta_S5: Thetas, points: Points, samples: Samples, delta: float = HUBER_DELTA
) -> Float[np.ndarray, " S"]:
    """Returns F of every row on its version of the runs."""
    r_SR = predicted_log_loss(theta_S5, points) - samples.log_loss
    return _huber_sum(r_SR, samples.weight, delta)


def slopes(theta_S5: Thetas, points: Points, samples: Samples, delta: float = HUBER_DELTA) -> Slopes:
    """Returns the derivatives of F in theta, by the formulas."""
    log_loss_SR, q_S3R = _terms(theta_S5, points)
    r_SR = log_loss_SR - samples.log_loss
    n_R, d_R = points.n, points.d
    J_S5R = np.stack([q_S3R[:, 0], q_S3R[:, 1], q_S3R[:, 2], -n_R * q_S3R[:, 1], -d_R * q_S3R[:, 2]], axis=1)
    size_SR = np.abs(r_SR)
    pull_SR = samples.weight * np.clip(r_SR, -delta, delta)
    square_SR = samples.weight * (size_SR <= delta)
    upper_SR = samples.weight * np.minimum(1.0, delta / np.maximum(size_SR, np.finfo(np.float64).tiny))
    hessian_S55 = _outer(J_S5R, square_SR - pull_SR) + _bend(pull_SR[:, None] * q_S3R, points)
    return Slopes(np.einsum("sir,sr->si", J_S5R, pull_SR), hessian_S55, _outer(J_S5R, upper_SR))


def _terms(theta_S5: Thetas, points: Points) -> tuple[Float[np.ndarray, "S R"], Float[np.ndarray, "S 3 R"]]:
    """Returns log L, and the share of each of the three terms in L."""
    e_S1, a_S1, b_S1, alpha_S1, beta_S1 = theta_S5.T[:, :, None]
    parts = [a_S1 - alpha_S1 * points.n, b_S1 - beta_S1 * points.d]
    t_S3R = np.stack([np.broadcast_to(e_S1, parts[0].shape), *parts], axis=1)
    top_S1R = t_S3R.max(axis=1, keepdims=True)
    grown_S3R = np.exp(t_S3R - top_S1R)
    total_S1R = grown_S3R.sum(axis=1, keepdims=True)
    return (top_S1R + np.log(total_S1R))[:, 0], grown_S3R / total_S1R


def _huber_sum(
    r_SR: Float[np.ndarray, "S R"], weight_SR: Float[np.ndarray, "S R"], delta: float
) -> Float[np.ndarray, " S"]:
    size_SR = np.abs(r_SR)
    return (weight_SR * np.where(size_SR <= delta, 0.5 * r_SR**2, delta * (size_SR - 0.5 * delta))).sum(axis=1)


def _outer(J_S5R: np.ndarray, weight_SR: np.ndarray) -> np.ndarray:
    return (J_S5R * weight_SR[:, None]) @ J_S5R.transpose(0, 2, 1)


def _bend(pull_S3R: np.ndarray, points: Points) -> np.ndarray:
    """Returns what the second derivatives of log-sum-exp in its own three terms add, mapped to theta."""
    H_S55 = np.zeros((len(pull_S3R), CONSTANTS, CONSTANTS))
    H_S55[:, 0, 0] = pull_S3R[:, 0].sum(axis=1)
    for amount, exponent, x_R in ((1, 3, points.n), (2, 4, points.d)):
        pull_SR = pull_S3R[:, amount]
        H_S55[:, amount, amount] = pull_SR.sum(axis=1)
        H_S55[:, amount, exponent] = H_S55[:, exponent, amount] = -(pull_SR @ x_R)
        H_S55[:, exponent, exponent] = pull_SR @ x_R**2
    return H_S55
