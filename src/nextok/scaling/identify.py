"""Whether runs can tell the constants at all: what is not identified gets a reason, not a number."""

import numpy as np

from nextok.errors import InputError
from nextok.scaling.bootstrap import Bootstrap
from nextok.scaling.grouping import same_size
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.projection import EXPONENTS
from nextok.scaling.runs import Runs

FEWEST_RUNS = 6
"""One more than the constants."""
_FEWEST_DISTINCT = 3  # sizes, and lengths: two points say nothing of a curve
_THINNEST = 0.05  # spread across the line that the runs lie along, as a share of that along it
_TERM_GONE = 1e-3  # share of the smallest loss
_MOST_AT_A_BOUND = 0.1  # of the resamples
_WIDEST_EXPONENT = 4.0  # ratio of the ends of its 80 % interval


def require_enough(runs: Runs) -> None:
    """Refuses fewer runs than a law can be fitted to.

    Raises:
        InputError: for fewer than six.
    """
    if len(runs) < FEWEST_RUNS:
        left = f" ({len(runs.left_out)} more were left out)" if runs.left_out else ""
        message = f"A law has five constants, and there are {len(runs)} finished runs{left}."
        raise InputError(message, f"Fit {FEWEST_RUNS} runs or more, of three sizes and three lengths at least.")


def reasons_in_design(runs: Runs) -> list[str]:
    """Returns why the places of these runs cannot tell the constants, whatever their losses."""
    reasons = []
    for name, column_R in (("sizes", runs.N), ("lengths in tokens", runs.D)):
        distinct = 1 + int(same_size(column_R).max())
        if distinct < _FEWEST_DISTINCT:
            reasons.append(f"the runs have {distinct} distinct {name}; {_FEWEST_DISTINCT} are needed")
    if not reasons and _across_over_along(runs) < _THINNEST:
        reasons.append(
            "log N and log D of all runs lie on one line (one D / N or one compute), "
            "where the parameter and the data term cannot be told apart"
        )
    return reasons


def reasons_in_fit(law: ParametricLaw | None, runs: Runs) -> list[str]:
    """Returns why the best fit is no law to go by: an exponent at an end of the search, or a term that vanished."""
    if law is None:
        return ["the best fit has an exponent below 0 or a constant beyond all bounds"]
    reasons = [
        f"{name} = {value:.3g} lies outside {EXPONENTS[0]:g} to {EXPONENTS[1]:g}"
        for name, value in (("alpha", law.alpha), ("beta", law.beta))
        if not EXPONENTS[0] < value < EXPONENTS[1]
    ]
    least = _TERM_GONE * float(runs.loss.min())
    if least > law.E:
        reasons.append("E ran to 0: the runs do not reach far enough to show where the loss levels off")
    if float((law.A * runs.N**-law.alpha).max()) < least:
        reasons.append("A ran to 0: the loss does not depend on N among these runs")
    if float((law.B * runs.D**-law.beta).max()) < least:
        reasons.append("B ran to 0: the loss does not depend on D among these runs")
    return reasons


def reasons_in_bootstrap(drawn: Bootstrap, runs: Runs) -> list[str]:
    """Returns why the refits to resampled runs disagree too much to give a number."""
    if not drawn.laws:
        return ["no resample gives a law"]
    lost = drawn.without_law + sum(bool(reasons_in_fit(law, runs)) for law in drawn.laws)
    share = lost / (len(drawn.laws) + drawn.without_law)
    if share > _MOST_AT_A_BOUND:
        return [f"in {share:.0%} of the resamples a term vanishes or an exponent runs to an end of the search"]
    reasons = []
    for name in ("alpha", "beta"):
        low, high = np.quantile([getattr(law, name) for law in drawn.laws], [0.1, 0.9])
        if high > _WIDEST_EXPONENT * low:
            reasons.append(f"80 % of the resamples put {name} anywhere between {low:.2g} and {high:.2g}")
    return reasons


def _across_over_along(runs: Runs) -> float:
    """Returns the smaller over the larger spread of log N and log D along their own axes."""
    logs_R2 = np.log(np.stack([runs.N, runs.D], axis=1))
    spreads = np.linalg.svd(logs_R2 - logs_R2.mean(axis=0), compute_uv=False)
    return float(spreads[1] / spreads[0])
