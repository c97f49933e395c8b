"""Flags from dataclasses, and what is read before them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import tyro

from nextok.cli.options import parse, read_early
from nextok.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    """Inner options."""

    size: int = 1
    """How large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    """Outer options."""

    name: str = "x"
    """What it is called."""
    inner: Inner = field(default_factory=Inner)
    """More."""


def test_flags_are_flat_and_start_from_the_defaults_given() -> None:
    default = Outer(name="file", inner=Inner(size=5))
    found = parse(Outer, ["--size", "7"], verb="try", about="", default=default)
    assert found == Outer(name="file", inner=Inner(size=7))
    assert parse(Outer, ["--name", "007"], verb="try", about="").name == "007"


def test_help_shows_docstrings_and_the_values_that_would_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(Outer, ["--help"], verb="try", about="About.", default=Outer(inner=Inner(size=42)))
    out = capsys.readouterr().out
    assert "How large. (default: 42)" in out
    assert "usage: nextok try" in out


def test_early_flags_are_read_from_anywhere_and_the_rest_stays_in_order(tmp_path: Path) -> None:
    file = tmp_path / "o.toml"
    file.write_text('name = "toml"\n[inner]\nsize = 2\n', encoding="utf-8")
    early = read_early(Outer, ["a", "--config", str(file), "--set", "inner.size=3", "--resume", "--out=o", "b"])
    assert early.values == {"name": "toml", "inner": {"size": 3}}
    assert (early.resume, early.out, early.rest) == (True, Path("o"), ["a", "--out=o", "b"])
    with pytest.raises(ConfigError, match="Did you mean 'inner'"):
        read_early(Outer, ["--set", "iner.size=3"])


@pytest.mark.parametrize("flag", ["--config", "--set", "--preset", "--recipe", "--out"])
def test_early_flag_without_its_value_is_a_plain_error(flag: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag}: expected one argument"):
        read_early(Outer, ["text.txt", flag])


def test_help_lists_the_early_flags_where_they_count(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for default in (None, Outer()):
        with pytest.raises(SystemExit):
            parse(Outer, ["--help"], verb="try", about="", default=default)
        shown.append(capsys.readouterr().out)
    for flag in ("--config FILE.toml", "--set NAME=VALUE", "--resume", "--json"):
        assert flag not in shown[0]
        assert flag in shown[1]


def test_flag_of_many_values_is_repeated_and_positionals_are_not() -> None:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Many:
        """Two lists."""

        sources: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
        """Without a flag."""
        stop: tuple[str, ...] = ()
        """With one."""

    found = parse(Many, ["--stop", "x", "a", "b", "--stop=-y"], verb="try", about="")
    assert found == Many(sources=("a", "b"), stop=("x", "-y"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "abc"], "--size cannot be 'abc'."),
        (["--sise", "5"], "Unrecognized options: --sise, 5. Did you mean --size?"),
        (["--size"], "--size"),
        (["--minutes", "1"], "Unrecognized options: --minutes, 1."),
    ],
)
def test_wrong_flag_is_one_plain_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse(Outer, arguments, verb="try", about="", default=Outer())
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert not set("│╭╮╰╯─") & set(str(wrong.value))
