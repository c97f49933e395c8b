"""Flags from dataclasses: the one place that knows tyro.

A verb's options are a frozen dataclass; nested dataclasses give flat flags (`--lr`, not `--train.lr`). What a TOML
file, a preset or an earlier run says becomes the default of the flags, so `--help` shows the values that would be used.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import tyro

from nextok import config as options
from nextok.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Early:
    """Flags that decide the defaults of the others, so they are read first."""

    values: dict[str, Any]
    """Options of the file and of `--set`, nested; `preset`, `recipe`, `init_from` and `lora` where they were flags."""
    resume: bool
    out: Path | None
    rest: list[str]
    """All arguments but `--config`, `--set` and `--resume`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _EarlyFlags:
    """Read before all others, whose defaults they decide."""

    # For `--help` alone: when tyro reads the flags, these have been taken out.
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """A file of options. Flags win over --set, that over the file, that over the recipe."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """One option by its full name, such as train.lr=2e-3."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Go on with the run in --out, with the options it has."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the result as one JSON object."""


def read_early(cls: type, argv: Sequence[str]) -> Early:
    """Returns what `--config`, `--set`, `--preset`, `--recipe`, `--init-from`, `--lora`, `--resume` and `--out` say.

    Raises:
        ConfigError: for a flag without its value, or a file or an assignment that does not fit the options.
    """
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    own.add_argument("--config", type=Path)
    own.add_argument("--set", action="append", default=[], dest="sets")
    own.add_argument("--resume", action="store_true")
    found, rest = _parse_known(own, argv)
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--preset", "--recipe", "--init-from", "--lora", "--out"):
        peek.add_argument(name)
    peeked, _ = _parse_known(peek, rest)
    values = options.read_toml(found.config) if found.config else {}
    values = options.merge(values, options.parse_sets(cls, found.sets))
    flags = {name: getattr(peeked, name) for name in ("preset", "recipe", "init_from", "lora")}
    values |= options.parse_sets(cls, [f"{name}={value}" for name, value in flags.items() if value is not None])
    return Early(values, found.resume, Path(peeked.out) if peeked.out else None, rest)


def parse(kind: type[T], argv: Sequence[str], *, verb: str, about: str, default: T | None = None) -> T:
    """Returns the options that the flags spell; prints help and exits where asked.

    A flag of many values is repeated, once a value, so that it never swallows what follows. With `default`, which the
    early flags made, the help lists those too.

    Raises:
        ConfigError: for a flag that does not exist, lacks its value, or has one that does not fit.
    """
    read = partial(
        _read_flags,
        verb,
        args=list(argv),
        prog=f"nextok {verb}",
        description=about,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.UseAppendAction),
    )
    if default is None:
        return read(kind)
    own, early = Annotated[kind, tyro.conf.arg(name="")], Annotated[_EarlyFlags, tyro.conf.arg(name="early")]
    both = tuple[own, early]  # type: ignore[valid-type]  # types made at run time
    return cast(T, read(both, default=(default, _EarlyFlags()))[0])


def _read_flags(verb: str, kind: Any, **settings: Any) -> Any:
    """Calls tyro, and turns the box that it prints for a mistake into one sentence."""
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(kind, **settings)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        message, near = _read_box(box.getvalue())
        hint = f"Did you mean {near}?" if near else f"nextok {verb} --help lists the options."
        raise ConfigError(message, hint) from None


def _read_box(box: str) -> tuple[str, str]:
    """Returns what tyro's box says, and the flag that it suggests, if any."""
    lines = [line.strip(" │╭╮╰╯") for line in box.splitlines()]
    said, *others = re.split(r"\n─+\n", "\n".join(lines[1:]))
    near = next((m[1] for part in others if (m := re.search(r"Perhaps you meant:\n(--[\w-]+)", part))), "")
    if wrong := re.search(r"Error parsing (\S+):.*(?:from\s+\[|base 10:\s+|to float:\s+)'(.*?)'", said, re.DOTALL):
        return f"{wrong[1]} cannot be {wrong[2]!r}.", near
    if missing := re.search(r"Missing from [^:]+:\s+(\S+)", said):
        return f"{missing[1]} is missing.", near
    first = " ".join(re.split(r"\n\n|\nGot errors", said)[0].split())
    return first.removesuffix(".") + ".", near


def _parse_known(parser: argparse.ArgumentParser, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    try:
        return parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise ConfigError(f"{error.argument_name}: {error.message}.", "--help shows how it is written.") from error
