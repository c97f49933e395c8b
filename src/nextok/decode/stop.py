"""Stop texts across tokens: nothing of a stop is ever released, and nothing else is held longer than needed.

Works on text alone, so a vocabulary that cannot spell a stop is no special case.
"""

from collections.abc import Sequence


class StopText:
    """Releases text as it comes and ends before the first stop text.

    First means completed first; of stops completed by the same character, the one that starts earliest. So the cut
    depends on the text alone, not on how tokens divide it, and the pieces released are together the text before it.

    Args:
        stops: Texts to end at, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None
        """The stop text that ended it, None until one has."""

    def push(self, text: str) -> str:
        """Returns what can be released once `text` has come: "" from the moment a stop is found."""
        if self.found is not None:
            return ""
        self._held += text
        completed = [(start + len(stop), start, stop) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if completed:
            _, cut, self.found = min(completed)
        else:
            cut = len(self._held) - self._open_length()
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def flush(self) -> str:
        """Returns what was held back, at the end of the text; "" if a stop was found."""
        rest = "" if self.found is not None else self._held
        self._held = ""
        return rest

    def _open_length(self) -> int:
        """Returns the length of the longest suffix held that begins one of the stops."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:length]):
                    longest = length
                    break
        return longest
