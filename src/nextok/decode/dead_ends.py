"""A constraint without the ids after which no text can become whole.

A mask tells what may come next, not that something can follow in turn: with a vocabulary that has no `u`, a JSON text
that has begun `tr` is lost. Here each id is allowed only with an ending in hand.
Axes: V vocabulary.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from jaxtyping import Bool, Int64

from nextok.decode.constraint import Constraint

_MOST_STATES = 300
Ending = tuple[int, ...]
"""Ids that make a text whole."""


class TooFar(Exception):  # noqa: N818  an answer, not an error
    """An ending was looked for in vain for as long as is worth it."""


class WithoutDeadEnds:
    """Another constraint, less the ids that lead nowhere; meets `Constraint`.

    Where an ending is too far to be found in a few hundred states, as for a text of at least a thousand characters,
    every id that the other constraint allows is allowed.

    Args:
        inner: The other constraint, from here on this one's own.
        rank_V: In which order to try ids when looking for an ending, lowest first; those that close something.
        near: An ending that may do, to be tried first.
    """

    def __init__(self, inner: Constraint, rank_V: Int64[np.ndarray, " V"], near: Ending = ()) -> None:
        self._inner, self._rank_V, self._near = inner, rank_V, near
        self._allowed_V: np.ndarray | None = None
        self._endings: dict[int, Ending] = {}

    @property
    def can_end(self) -> bool:
        """Whether the text so far is whole."""
        return self._inner.can_end

    @property
    def is_done(self) -> bool:
        """Whether the text so far is whole and nothing can follow."""
        return self.can_end and not self.allowed().any()

    def allowed(self) -> Bool[np.ndarray, " V"]:
        """Returns True for each id that may come next and has an ending."""
        if self._allowed_V is None:
            self._allowed_V = self._inner.allowed().copy()
            try:
                for id in np.flatnonzero(self._allowed_V):
                    self._allowed_V[id] = self._leads_on(int(id))
            except TooFar:
                self._allowed_V = self._inner.allowed()
        return self._allowed_V

    def advance(self, id: int) -> None:
        """Takes one allowed id into the text."""
        self._near = self._endings.get(id, ())
        self._inner.advance(id)
        self._allowed_V, self._endings = None, {}

    def n_possible(self, ids: Sequence[int]) -> int:
        """Returns how many of the ids, from the first, could follow one another, dead ends or not."""
        return self._inner.n_possible(ids)

    def copy(self) -> Self:
        """Returns the same state once more."""
        return type(self)(self._inner.copy(), self._rank_V, self._near)

    def _leads_on(self, id: int) -> bool:
        after = self._inner.copy()
        after.advance(id)
        # What ends the text here mostly ends it one id later too, so a search is rare.
        for near in (self._near, self._near[1:] if self._near[:1] == (id,) else ()):
            if is_ending(after, near):
                self._endings[id] = near
                return True
        found = find_ending(after, self._rank_V)
        if found is None:
            return False
        self._endings[id] = self._near = found
        return True


def is_ending(constraint: Constraint, ids: Ending) -> bool:
    """Whether the ids make the text whole."""
    if constraint.n_possible(ids) < len(ids):
        return False
    after = constraint.copy()
    for id in ids:
        if not after.allowed()[id]:
            return False
        after.advance(id)
    return after.can_end


def find_ending(
    constraint: Constraint, rank_V: Int64[np.ndarray, " V"], most_states: int = _MOST_STATES
) -> Ending | None:
    """Returns ids that make the text whole, or None if there are none, by a search in depth.

    Args:
        constraint: The text so far; not changed.
        rank_V: The order in which ids are tried, lowest first.
        most_states: When to give up.

    Raises:
        TooFar: if it gives up.
    """
    path: list[int] = []
    branches = [(constraint, _by_rank(constraint, rank_V))]
    n_states = 1
    if constraint.can_end:
        return ()
    while branches:
        state, ids = branches[-1]
        if not ids:
            branches.pop()
            del path[-1:]
            continue
        after = state.copy()
        id = ids.pop()
        after.advance(id)
        path.append(id)
        if after.can_end:
            return tuple(path)
        n_states += 1
        if n_states > most_states:
            raise TooFar
        branches.append((after, _by_rank(after, rank_V)))
    return None


def _by_rank(constraint: Constraint, rank_V: Int64[np.ndarray, " V"]) -> list[int]:
    """Returns the ids allowed, the one to try first at the end."""
    ids = np.flatnonzero(constraint.allowed())
    return list(map(int, ids[np.argsort(-rank_V[ids], kind="stable")]))
