"""Hook points: what the forward pass calls at each named value, so that it can be read or changed.

The plain pass calls `NO_TAPS`, which hands every value back. Names are those of `nextok.spec.hooks`.
"""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from nextok.errors import InputError

Replacements = Mapping[str, Callable[[Tensor], Tensor]]


class Taps:
    """Records and replaces values by their full name; `at` gives the same taps from inside a module."""

    def __init__(self, *, record: Sequence[str] = (), replace: Replacements | None = None) -> None:
        self.record = tuple(record)
        self.recorded: dict[str, Tensor] = {}
        self._replace: Replacements = replace or {}
        self._scope = ""

    def at(self, scope: str) -> "Taps":
        """Returns taps whose names start with this scope; what they record lands in the same place."""
        inner = Taps(record=self.record, replace=self._replace)
        inner.recorded = self.recorded
        inner._scope = f"{self._scope}{scope}."
        return inner

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Returns the value, changed where it is replaced, and records it where it is asked for.

        Raises:
            InputError: if what a replacement gives has another shape.
        """
        full = self._scope + name
        if full in self._replace:
            value = _same_shape(full, value, self._replace[full](value))
        if full in self.record:
            self.recorded[full] = value
        return value

    def records(self, *names: str) -> bool:
        """Whether any of these is asked for."""
        return any(self._scope + name in self.record for name in names)

    def replaces(self, *names: str) -> bool:
        """Whether any of these is changed."""
        return any(self._scope + name in self._replace for name in names)


def _same_shape(name: str, value: Tensor, changed: Tensor) -> Tensor:
    # a step of generation would take a whole sequence for one token, and go on without a word
    if changed.shape != value.shape:
        raise InputError(
            f"The replacement of {name} gave shape {list(changed.shape)}; the value has {list(value.shape)}.",
            "Keep the shape it is called with: in generation that is the positions of one step.",
        )
    return changed


class _NoTaps(Taps):
    """Nothing is recorded or replaced; costs one call."""

    def at(self, scope: str) -> Taps:
        return self

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def records(self, *names: str) -> bool:
        return False

    def replaces(self, *names: str) -> bool:
        return False


NO_TAPS = _NoTaps()
