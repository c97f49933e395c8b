"""The values of a JSON object taken out by name and type; every refusal says which file, which field and what came."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from nextok.errors import CheckpointError, InputError
from nextok.files import read_json

T = TypeVar("T")
_MISSING: Any = object()
_LONGEST_SHOWN = 200


class TypedJson:
    """One JSON object of a file. A field that is null counts as absent; an absent one without default is refused."""

    def __init__(self, values: Mapping[str, Any], path: Path, prefix: str = "") -> None:
        self.values = values
        self.path = path
        self.prefix = prefix

    @classmethod
    def read(cls, path: Path) -> "TypedJson":
        """Returns the object of a JSON file.

        Raises:
            CheckpointError: if the file is missing, not strict JSON, or not an object.
        """
        try:
            values = read_json(path)
        except InputError as error:
            raise CheckpointError(error.message, error.hint) from error
        if not isinstance(values, dict):
            raise CheckpointError(f"{path} is not a JSON object.")
        return cls(values, path)

    def whole(self, name: str, default: int = _MISSING) -> int:
        """Returns a whole number."""
        return cast(int, self._typed(name, default, (int,), "a whole number"))

    def number(self, name: str, default: float = _MISSING) -> float:
        """Returns a number."""
        return float(cast(float, self._typed(name, default, (int, float), "a number")))

    def switch(self, name: str, *, default: bool) -> bool:
        """Returns true or false."""
        return cast(bool, self._typed(name, default, (bool,), "true or false"))

    def text(self, name: str, default: str = _MISSING) -> str:
        """Returns a text."""
        return cast(str, self._typed(name, default, (str,), "text"))

    def table(self, name: str, default: Mapping[str, Any] = _MISSING) -> Mapping[str, Any]:
        """Returns an object inside this one."""
        return cast(Mapping[str, Any], self._typed(name, default, (dict,), "a JSON object"))

    def require(self, name: str, allowed: tuple[T, ...], reason: str, default: T | None = None) -> T:
        """Returns the field's value if it is one of those allowed, and refuses any other with the reason."""
        value = self._present(name, default)
        if not any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in allowed):
            raise self.refused(name, value, f"{reason}, so it has to be {' or '.join(str(each) for each in allowed)}")
        return cast(T, value)

    def require_all(self, name: str, allowed: str, reason: str) -> None:
        """Refuses a list that holds anything else, with the reason; an absent one is fine."""
        value = self._present(name, [])
        other = [item for item in value if item != allowed] if isinstance(value, list) else [value]
        if other:
            raise self.refused(name, other[0], f"{reason}, so it has to be {allowed}")

    def refused(self, name: str, value: object, reason: str) -> CheckpointError:
        """Returns the error for a value that asks for something nextok does not compute."""
        return CheckpointError(
            f"{self.path} has {self.prefix}{name} = {_shown(value)}; in nextok {reason}.",
            "This model cannot be run exactly.",
        )

    def _present(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value

    def _typed(self, name: str, default: object, kinds: tuple[type, ...], words: str) -> object:
        value = self._present(name, default)
        if value is _MISSING:
            raise CheckpointError(f"{self.path} has no {self.prefix}{name}.", "The file is not a whole config.")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise CheckpointError(f"{self.path} has {self.prefix}{name} = {_shown(value)}, which is not {words}.")
        return value


def _shown(value: object) -> str:
    shown = f"{value!r}"
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."
