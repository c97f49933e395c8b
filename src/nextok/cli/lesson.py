"""`nextok lesson [NAME]`: a lesson's worked example, expected beside computed, with the reason."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import tyro
from rich.console import Console

from nextok.cli.options import parse
from nextok.config import unknown_name
from nextok.errors import ConfigError
from nextok.files import to_json
from nextok.lessons import Example, Fact, Value, Worked, as_given, pick, spelled
from nextok.lessons.catalogue import EXAMPLES, run
from nextok.report import make_console, plain_text, table

ABOUT = "Run a worked example of the lessons, or all of them; without a name, list them."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """An example, or `all` for every one that takes no more than seconds."""
    quiz: bool = False
    """Ask for the prediction first, as the lessons do, then show answer and reason."""
    json: bool = False
    """Print one JSON object an example, in a list."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns 1 if any value differs from the lesson's."""
    arguments = parse(Arguments, argv, verb="lesson", about=ABOUT)
    if arguments.quiz and arguments.json:
        raise ConfigError("--quiz talks to a person and --json to a program.", "Choose one of them.")
    if arguments.name is None:
        _list(as_json=arguments.json)
        return 0
    chosen = pick(EXAMPLES, arguments.name)
    if not chosen:
        near = unknown_name(arguments.name, [*(one.name for one in EXAMPLES), "all"])
        raise ConfigError(f"There is no worked example {arguments.name!r}.", near.hint.replace("names", "examples"))
    if arguments.json:
        return _print_json(chosen)
    return _show_all(chosen, make_console(), quiz=arguments.quiz)


def _list(*, as_json: bool) -> None:
    if as_json:
        fields = ("name", "lesson", "title", "slow")
        print(to_json([{name: getattr(one, name) for name in fields} for one in EXAMPLES], indent=2))
        return
    rows = [(one.name, one.lesson, one.title + (" (minutes)" if one.slow else "")) for one in EXAMPLES]
    make_console().print(table(("example", "lesson", "what it shows"), rows))


def _print_json(chosen: list[Example]) -> int:
    reports = []
    for example in chosen:
        worked = run(example)
        facts = [{**asdict(_json_fact(fact)), "holds": fact.holds} for fact in worked.facts]
        reports.append({"name": example.name, "holds": worked.holds, **asdict(worked), "facts": facts})
    print(to_json(reports, indent=2))
    return 0 if all(report["holds"] for report in reports) else 1


def _json_fact(fact: Fact) -> Fact:
    """Returns the fact with -inf and NaN as words, which JSON has no numbers for."""
    return replace(fact, expected=_json_value(fact.expected), computed=_json_value(fact.computed))


def _json_value(value: Value) -> Value:
    finite = all(
        math.isfinite(one) for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, float)
    )
    return value if finite else spelled(value)


def _show_all(chosen: list[Example], console: Console, *, quiz: bool) -> int:
    differing, facts, seconds = [], 0, 0.0
    for example in chosen:
        if example.slow:
            console.print("Takes minutes.")
        started = time.perf_counter()
        worked = run(example)
        seconds += time.perf_counter() - started  # without the reader's time
        show(example, worked, console, quiz=quiz)
        facts += len(worked.facts)
        differing += [example.name] if not worked.holds else []
    if len(chosen) > 1:
        verdict = f"these differ: {', '.join(differing)}" if differing else "all as they should be"
        console.print(f"{len(chosen)} examples, {facts} values in {seconds:.1f} s: {verdict}.", soft_wrap=True)
    return 1 if differing else 0


def show(example: Example, worked: Worked, console: Console, *, quiz: bool = False) -> None:
    """Prints an example: question, values, answer, reason, and where the lesson page errs."""
    console.print(plain_text(f"{example.title}  ({example.name}; lesson {example.lesson})", style="bold"))
    console.print(plain_text(worked.question))
    if quiz:
        _ask(console)
    rows = [
        (fact.what, as_given(fact.expected), spelled(fact.computed), "" if fact.holds else "differs")
        for fact in worked.facts
    ]
    console.print(table(("value", "expected", "computed", ""), rows))
    if worked.holds and any(fact.tolerance for fact in worked.facts):
        console.print("Equal to the digits that the lessons give.")
    for grid in worked.grids:
        console.print(table(grid.columns, grid.rows, title=grid.title))
    console.print(plain_text(worked.answer))
    console.print(plain_text(worked.why))
    for correction in worked.corrections:
        console.print(plain_text(f"The lesson page errs. {correction}", style="yellow"))
    console.print()


def _ask(console: Console) -> None:
    """Waits for a prediction, which is the reader's own to compare; the end of the input answers nothing."""
    console.print("Your prediction: ", end="")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        console.print()
