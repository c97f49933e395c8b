"""Why this token: everything that one draw depended on, as plain data. `cli` and the lab page show it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nextok.decode.logprobs import top_logprobs
from nextok.decode.sampling import Distribution, Removal

_N_CANDIDATES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """An id and how likely it is."""

    id: int
    """Token id."""
    probability: float
    """In 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """One draw, from what the model read to the token chosen."""

    position: int
    """Of the token chosen, in prompt and output together, from 0."""
    context_ids: tuple[int, ...]
    """The ids that the model read for this token, oldest first."""
    raw: tuple[Candidate, ...]
    """The likeliest ids of the model's own distribution, at most ten, best first."""
    removals: tuple[Removal, ...]
    """What each filter took away, in the order in which they ran."""
    final: tuple[Candidate, ...]
    """The likeliest ids of the distribution drawn from, at most ten, best first."""
    n_final: int
    """How many ids could be drawn."""
    uniform: float | None
    """The number in [0, 1) that chose among them; None at temperature 0, which draws nothing."""
    id: int
    """The token chosen."""


def explain_draw(
    logits_V: Float[np.ndarray, " V"],
    kept: Distribution,
    *,
    id: int,
    uniform: float | None,
    position: int,
    context_ids: Sequence[int],
) -> Explanation:
    """Returns the explanation of one draw from a distribution made with `explain=True`.

    Args:
        logits_V: The model's logits that the distribution was made of.
        kept: The distribution drawn from.
        id: The id drawn.
        uniform: The number that drew it, None at temperature 0.
        position: Position of the id in prompt and output together.
        context_ids: The ids that the model read.

    Raises:
        NonFiniteError: if the logits are not a distribution.
    """
    raw = tuple(Candidate(id=i, probability=float(np.exp(p))) for i, p in top_logprobs(logits_V, _N_CANDIDATES))
    best = np.argsort(-kept.probabilities, kind="stable")[:_N_CANDIDATES]
    final = tuple(Candidate(id=int(kept.ids[i]), probability=float(kept.probabilities[i])) for i in best)
    return Explanation(
        position=position,
        context_ids=tuple(context_ids),
        raw=raw,
        removals=kept.removals,
        final=final,
        n_final=kept.ids.size,
        uniform=uniform,
        id=id,
    )
