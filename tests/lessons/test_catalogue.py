"""The catalogue holds every example of every file once, under names that can be typed."""

import importlib
import pkgutil
import re
import textwrap
from pathlib import Path

import pytest

from lessons.examples import worked
from nextok import lessons
from nextok.lessons.catalogue import EXAMPLES
from nextok.lessons.stretch import TRAINED_CORRECTIONS
from nextok.lessons.worked import Example, pick

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lessons.md"


def test_no_file_of_examples_is_left_out() -> None:
    files = [importlib.import_module(f"nextok.lessons.{file.name}") for file in pkgutil.iter_modules(lessons.__path__)]
    there = {
        example.name for file in files if file.__name__ != "nextok.lessons.catalogue" for example in _examples(file)
    }
    assert {example.name for example in EXAMPLES} == there


def _examples(file: object) -> tuple:
    return getattr(file, "EXAMPLES", ())


def test_names_are_unique_and_can_be_typed() -> None:
    names = [example.name for example in EXAMPLES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and name != "all" for name in names)


def test_every_example_says_where_it_is_from_and_what_it_shows() -> None:
    assert all(re.match(r"[ABC]\b", example.lesson) and example.title for example in EXAMPLES)


def test_all_leaves_out_what_takes_minutes() -> None:
    left_out = {example.name for example in EXAMPLES} - {example.name for example in pick(EXAMPLES, "all")}
    assert left_out == {example.name for example in EXAMPLES if example.slow}
    assert "stretch-train" in left_out


@pytest.mark.parametrize("example", pick(EXAMPLES, "all"), ids=lambda example: example.name)
def test_no_title_gives_the_answer_away(example: Example) -> None:
    number = r"\d[\d,]*(?:\.\d+)?"
    result = worked(example)
    told = re.findall(number, result.question)
    first = next((found for found in re.findall(number, result.answer) if found not in told), None)
    assert first not in re.findall(number, example.title)


def test_the_page_names_every_example() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9-]+)`", page)) | set(re.findall(r"nextok lesson ([a-z0-9-]+)", page))
    assert {example.name for example in EXAMPLES} <= named


def test_the_page_lists_every_correction() -> None:
    _, found, section = PAGE.read_text(encoding="utf-8").partition("\n## Where the pages err\n")
    right = "\n".join(_listed(example) for example in EXAMPLES if _corrections(example))
    assert found, "the section is missing"
    assert right in section, f"replace the list under `Where the pages err` in {PAGE.name} by\n{right}"
    assert section.count("\n- ") == right.count("\n- ") + 1


def _corrections(example: Example) -> tuple[str, ...]:
    return TRAINED_CORRECTIONS if example.name == "stretch-train" else worked(example).corrections


def _listed(example: Example) -> str:
    """Returns the example's corrections as the page has them."""
    lines = [f"`{example.name}` (lesson {example.lesson}). {line}" for line in _corrections(example)]
    return "\n".join(
        textwrap.fill(line, 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) for line in lines
    )
