"""The ids so far and the rules for the next one: what a draw depends on, beside the logits.

`continuation` adds text and an end to it; drafts for speculation are drawn by a copy of it, under the same rules.
Axes: T ids, V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from nextok.decode.config import SamplingConfig
from nextok.decode.constraint import Constraint
from nextok.decode.sampling import Distribution, distribution, draw
from nextok.rng import uniform


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One id chosen, and out of what."""

    id: int
    """The token."""
    kept: Distribution
    """What it was drawn from."""
    uniform: float
    """The number in [0, 1) that drew it."""


class Chooser:
    """Chooses id after id.

    Args:
        prompt_T: Ids of the prompt; kept, not copied.
        config: The options.
        vocab_size: How many of the logits are those of real tokens.
        end: The id of end of text, None where there is none.
        choice: Which of the prompt's continuations this is, from 0.
        constraint: What the new text must follow; its state is this chooser's alone.
    """

    def __init__(
        self,
        prompt_T: Int64[np.ndarray, " T"],
        config: SamplingConfig,
        *,
        vocab_size: int,
        end: int | None,
        choice: int = 0,
        constraint: Constraint | None = None,
    ) -> None:
        self.vocab_size, self.n_prompt = vocab_size, prompt_T.size
        self._config, self._choice, self._constraint = config, choice, constraint
        self._ids, self._n_ids = prompt_T, prompt_T.size
        self._ends = set(config.stop_ids)
        if end is not None and not config.ignore_end:
            self._ends.add(end)

    @property
    def ids(self) -> Int64[np.ndarray, " T"]:
        """All ids so far, those of the prompt first: a view."""
        return self._ids[: self._n_ids]

    @property
    def n_new(self) -> int:
        """How many ids have been appended."""
        return self._n_ids - self.n_prompt

    @property
    def is_done(self) -> bool:
        """Whether the constraint lets nothing follow."""
        return self._constraint is not None and self._constraint.is_done

    def choose(self, logits_V: Float[np.ndarray, " V"], *, explain: bool = False) -> Choice:
        """Returns the id that comes next; a function of the logits, the ids so far and the options.

        Raises:
            PromptError: if bans and constraint leave no id.
            NonFiniteError: if the logits are not a distribution.
        """
        kept = distribution(
            logits_V[: self.vocab_size],
            self._config,
            self._ids[: self.n_prompt],
            self._ids[self.n_prompt : self._n_ids],
            banned_ids=() if self._may_end else tuple(self._ends),
            allowed_V=self._allowed(),
            explain=explain,
        )
        number = uniform(self._config.seed, "sample", self._choice, self._n_ids)
        return Choice(id=draw(kept, number), kept=kept, uniform=number)

    def append(self, id: int) -> bool:
        """Takes the id that comes next; returns whether it ends the text, of which it then is no part."""
        ends = id in self._ends
        if self._constraint is not None and not ends:
            ends = self._ends_by_leaving and not self._constraint.allowed()[id]
            if not ends:
                self._constraint.advance(id)
        if self._n_ids == self._ids.size:
            self._ids = np.resize(self._ids, 2 * self._n_ids)
        self._ids[self._n_ids] = id
        self._n_ids += 1
        return ends

    def copy(self) -> "Chooser":
        """Returns one in the same state, to go another way."""
        other = Chooser(self.ids.copy(), self._config, vocab_size=self.vocab_size, end=None, choice=self._choice)
        other.n_prompt, other._ends = self.n_prompt, self._ends
        other._constraint = None if self._constraint is None else self._constraint.copy()
        return other

    def possible(self, ids_T: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " possible"]:
        """Returns the ids up to the first that cannot follow: beyond the vocabulary, or against the constraint."""
        strange = np.flatnonzero(ids_T >= self.vocab_size)
        possible_T = ids_T[: strange[0]] if strange.size else ids_T
        if self._constraint is None:
            return possible_T
        return possible_T[: self._constraint.n_possible(possible_T.tolist())]

    @property
    def _may_end(self) -> bool:
        if self.n_new < self._config.min_new_tokens:
            return False
        return self._constraint is None or self._constraint.can_end

    @property
    def _ends_by_leaving(self) -> bool:
        """Whether the text ends where the model goes on with what the constraint forbids.

        The way to end a whole text that could go on, for a vocabulary with no id that says so.
        """
        return self._constraint is not None and self._may_end and not self._ends and not self._config.ignore_end

    def _allowed(self) -> Bool[np.ndarray, " V"] | None:
        if self._constraint is None or self._ends_by_leaving:
            return None
        allowed_V = self._constraint.allowed()[: self.vocab_size]
        if self._may_end and self._ends:
            allowed_V = allowed_V.copy()
            allowed_V[list(self._ends)] = True
        return allowed_V
