"""The catalogue holds every example of every file once, under names that can be typed."""

import importlib
import pkgutil
import re

from nextok import lessons
from nextok.lessons.catalogue import EXAMPLES
from nextok.lessons.worked import pick


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
