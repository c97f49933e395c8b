"""Flags from dataclasses: the one place that knows tyro.

A verb's options are a frozen dataclass; nested dataclasses give flat flags (`--lr`, not `--train.lr`). What a TOML
file, a preset or an earlier run says becomes the default of the flags, so `--help` shows the values that would be used.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro

from nextok import config as options

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Early:
    """Flags that decide the defaults of the others, so they are read first."""

    values: dict[str, Any]
    """Options of the file and of `--set`, nested; `preset` and `recipe` where they were flags."""
    resume: bool
    out: Path | None
    rest: list[str]
    """All arguments but `--config`, `--set` and `--resume`."""


def read_early(cls: type, argv: Sequence[str]) -> Early:
    """Returns what `--config`, `--set`, `--preset`, `--recipe`, `--resume` and `--out` say.

    Raises:
        ConfigError: for a file or an assignment that does not fit the options.
    """
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--config", type=Path)
    own.add_argument("--set", action="append", default=[], dest="sets")
    own.add_argument("--resume", action="store_true")
    found, rest = own.parse_known_args(list(argv))
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--preset", "--recipe", "--out"):
        peek.add_argument(name)
    peeked, _ = peek.parse_known_args(rest)
    values = options.read_toml(found.config) if found.config else {}
    values = options.merge(values, options.parse_sets(cls, found.sets))
    values |= {name: value for name in ("preset", "recipe") if (value := getattr(peeked, name)) is not None}
    return Early(values, found.resume, Path(peeked.out) if peeked.out else None, rest)


def parse(kind: type[T], argv: Sequence[str], *, verb: str, about: str, default: T | None = None) -> T:
    """Returns the options that the flags spell; prints help and exits where asked, exits 2 for a flag that is wrong."""
    extra = {} if default is None else {"default": default}
    return tyro.cli(  # type: ignore[call-overload]
        kind,
        args=list(argv),
        prog=f"nextok {verb}",
        description=about,
        config=(tyro.conf.OmitArgPrefixes,),
        **extra,
    )


def cache_folder() -> Path:
    """Returns the folder for downloads: NEXTOK_CACHE, or `nextok` in the user's cache folder."""
    named = os.environ.get("NEXTOK_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nextok"
