"""Options from every place they come from, in one way: frozen dataclasses, TOML files, `--set a.b=c`, JSON.

An unknown key is refused with the nearest known name; a value of the wrong type is refused with the type it needs.
Nothing in a file is imported or executed. Ranges are checked by each dataclass in its `__post_init__`.
"""

import dataclasses
import difflib
import sys
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from nextok.errors import ConfigError

T = TypeVar("T")


def from_mapping(cls: type[T], values: Mapping[str, object], where: str = "") -> T:
    """Returns the dataclass made from plain values, nested dataclasses from nested mappings.

    Raises:
        ConfigError: for an unknown key, a missing one, or a value of the wrong type or out of range.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where or cls.__name__} = {values!r} is not a table of options.")
    hints = field_types(cls)
    arguments = {}
    for name, value in values.items():
        if name not in hints:
            raise unknown_name(name, hints, where)
        arguments[name] = _checked(value, hints[name], _join(where, name))
    missing = [f.name for f in dataclasses.fields(cls) if _required(f) and f.name not in arguments]  # type: ignore[arg-type]
    if missing:
        raise ConfigError(f"{where or cls.__name__} has no value for {', '.join(missing)}.")
    return cls(**arguments)


def to_mapping(options: Any) -> dict[str, Any]:
    """Returns the options as plain, nested values that `from_mapping` reads back."""
    return {name: _plain(value) for name, value in dataclasses.asdict(options).items()}


def read_toml(path: Path) -> dict[str, Any]:
    """Returns the tables of a TOML file.

    Raises:
        ConfigError: if the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a byte-order mark first
    except OSError as error:
        raise ConfigError(f"Cannot read the options file {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number or a nesting beyond all bounds
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `base` with the values of `over` in place of its own, table by table."""
    merged = dict(base)
    for name, value in over.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if both_tables else value
    return merged


def parse_sets(cls: type, assignments: Sequence[str]) -> dict[str, Any]:
    """Returns nested values from `a.b=c` assignments, each read by the type of its field.

    Only the first `=` separates, and text fields keep their text: `"007"` and `"1e5"` stay strings. A list is written
    as in a TOML file: `stop=["a", "b"]`. Of two assignments to one name the later counts.

    Raises:
        ConfigError: for a missing `=`, an unknown name, or text that does not fit the field.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment} has no value.", "Write --set name=value.")
        kind = _type_at(cls, path)
        table = values
        *parents, last = path.split(".")
        for parent in parents:
            if not isinstance(table.get(parent), dict):  # new, or set to none before
                table[parent] = {}
            table = table[parent]
        table[last] = parse_text(text, kind, path)
    return values


def parse_text(text: str, kind: Any, where: str) -> Any:
    """Returns the value that the text spells for a field of type `kind`.

    Raises:
        ConfigError: if the text does not spell such a value.
    """
    choices = _choices(kind)
    if type(None) in choices and str not in choices and text.lower() in ("none", "null"):
        return None
    for choice in choices:
        if choice is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if choice in (int, float):
            try:
                return choice(text)
            except ValueError:
                continue
        if choice is Path:
            return Path(text)
        if typing.get_origin(choice) is tuple:
            return _checked(_toml_value(text, where), choice, where)
        if choice is str or (typing.get_origin(choice) is Literal and text in typing.get_args(choice)):
            return text
    raise ConfigError(f"{where} = {text!r} is not {describe_type(kind)}.")


def unknown_name(name: str, known: typing.Iterable[str], where: str = "") -> ConfigError:
    """Returns the error for a name that is not among the known ones, with the nearest of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known names: {', '.join(names)}."
    place = f" in {where}" if where else ""
    return ConfigError(f"Unknown option {name!r}{place}.", hint)


def field_types(cls: type) -> dict[str, Any]:
    """Returns the type of each field of a dataclass, by name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def describe_type(kind: Any) -> str:
    """Returns the type in words a user can act on: `one of a, b`, `a whole number or none`."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    spelled = []
    for choice in _choices(kind):
        if choice is type(None):
            spelled.append("none")
        elif typing.get_origin(choice) is Literal:
            spelled.append("one of " + ", ".join(str(value) for value in typing.get_args(choice)))
        elif typing.get_origin(choice) is tuple:
            spelled.append("a list")
        else:
            spelled.append(words.get(choice, "a table of options"))
    return " or ".join(spelled)


def _checked(value: object, kind: Any, where: str) -> object:
    for choice in _choices(kind):
        if dataclasses.is_dataclass(choice) and isinstance(value, Mapping):
            return from_mapping(typing.cast(type, choice), value, where)
        if typing.get_origin(choice) is tuple and isinstance(value, list | tuple):
            return _checked_items(value, typing.get_args(choice), where)
        if _fits(value, choice):
            return (
                float(typing.cast(float, value)) if choice is float else Path(str(value)) if choice is Path else value
            )
    raise ConfigError(f"{where} = {value!r} is not {describe_type(kind)}.")


def _checked_items(values: Sequence[object], kinds: tuple[Any, ...], where: str) -> tuple[object, ...]:
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(values)
    if len(values) != len(kinds):
        raise ConfigError(f"{where} has {len(values)} values; it takes {len(kinds)}.")
    return tuple(_checked(value, kinds[i], f"{where}[{i}]") for i, value in enumerate(values))


def _toml_value(text: str, where: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} = {text!r} is not a list.", 'Write it as in a TOML file: ["a", "b"].') from error


def _fits(value: object, choice: Any) -> bool:
    if typing.get_origin(choice) is Literal:  # by type too, since True == 1
        return any(value == known and type(value) is type(known) for known in typing.get_args(choice))
    if choice is Path:
        return isinstance(value, str | Path)
    if choice in (int, float) and isinstance(value, bool):
        return False
    if choice is float and isinstance(value, int):
        return abs(value) <= sys.float_info.max
    return isinstance(value, choice) if isinstance(choice, type) else False


def _choices(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) is typing.Annotated:
        return _choices(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _type_at(cls: type, path: str) -> Any:
    kind: Any = cls
    walked = ""
    for name in path.split("."):
        hints = _names_in(kind)
        if not hints:
            raise ConfigError(f"{walked} is a single value; {path} names something inside it.")
        if name not in hints:
            tables = [table for table, inner in hints.items() if name in _names_in(inner)]
            if tables:
                raise ConfigError(f"Unknown option {name!r}.", f"Did you mean {_join(walked, tables[0])}.{name}?")
            raise unknown_name(name, hints, walked)
        kind, walked = hints[name], _join(walked, name)
    return kind


def _names_in(kind: Any) -> dict[str, Any]:
    """Returns the fields of a table of options and their types; none for a single value."""
    table = next((choice for choice in _choices(kind) if dataclasses.is_dataclass(choice)), None)
    return {} if table is None else field_types(typing.cast(type, table))


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
