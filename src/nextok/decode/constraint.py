"""What a constraint on the text is: which ids may come next, and where the text may or must end.

The loop knows this protocol alone. `grammar` offers regular expressions and JSON schemas; any other object will do.
Axes: V vocabulary.
"""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
from jaxtyping import Bool


@runtime_checkable
class Constraint(Protocol):
    """The state of one text under a constraint, from its first new token on; the prompt is no part of it.

    End of text is not the constraint's business: it says where the text may end, and the loop lets it end there.
    """

    @property
    def can_end(self) -> bool:
        """Whether the text so far is whole."""

    @property
    def is_done(self) -> bool:
        """Whether the text so far is whole and nothing can follow."""

    def allowed(self) -> Bool[np.ndarray, " V"]:
        """Returns True for each id that may come next. The caller does not write into it."""

    def advance(self, id: int) -> None:
        """Takes one allowed id into the text."""

    def n_possible(self, ids: Sequence[int]) -> int:
        """Returns how many of the ids, from the first, could follow one another here; changes nothing."""

    def copy(self) -> Self:
        """Returns the same state once more, to go another way."""
