"""Tables: numbers on the right, text as it is, nothing lost to a long cell."""

import io
from typing import Any

import pytest
from rich.console import RenderableType

from nextok.report import fact_table, make_console, table


def shown(content: RenderableType, width: int = 80) -> list[str]:
    stream = io.StringIO()
    make_console(stream, width=width).print(content)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_columns_of_numbers_are_right_aligned_and_texts_are_not() -> None:
    rows = [("gpt2", 124_439_808, "1.86 EFLOP", 3.10721, True), ("tiny", 107, "621.3 kFLOP", None, False)]
    assert shown(table(["name", "params", "work", "loss", "tied"], rows)) == [
        "name        params          work    loss   tied",
        "───────────────────────────────────────────────",
        "gpt2   124,439,808    1.86 EFLOP   3.107   yes",
        "tiny           107   621.3 kFLOP       -   no",
    ]


@pytest.mark.parametrize(
    ("cell", "right"),
    [
        (5, True),
        (-0.5, True),
        (None, True),
        ("107.0k", True),
        ("1.5 GiB", True),
        ("41.2k tokens/s", True),
        ("3e18", True),
        ("12%", True),
        ("~3 min", True),
        ("2-layer model", False),
        ("3 blind mice ran", False),
        ("", False),
        (True, False),
    ],
)
def test_what_counts_as_a_quantity(cell: Any, right: bool) -> None:
    column = table(["a"], [(cell,)]).columns[0]
    assert (column.justify == "right") is right


def test_facts_stand_one_a_line_under_their_title() -> None:
    lines = shown(fact_table("Model", [("parameters", 107_000), ("tied", True), ("path", "runs/[a]"), ("loss", None)]))
    assert lines == ["Model", "parameters  107,000", "tied        yes", "path        runs/[a]", "loss        -"]


def test_facts_that_are_all_numbers_are_right_aligned() -> None:
    assert shown(fact_table("", [("a", 1000), ("b", 5)])) == ["a  1,000", "b      5"]


def test_markup_and_terminal_codes_in_any_place_are_text() -> None:
    lines = shown(table(["[b]name"], [("[red]x[/red] \x1b[2J",)], title="[i]t[/i]"))
    assert lines[0] == "[i]t[/i]"
    assert lines[1] == "[b]name"
    assert lines[3] == "[red]x[/red] \ufffd[2J"


@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_very_long_cell_is_folded_and_starves_no_number(width: int) -> None:
    lines = shown(table(["token", "count"], [("x" * 300, 123_456), ("y", 7)]), width)
    text = "\n".join(lines)
    assert text.count("x") == 300
    assert "123,456" in text
    assert max(map(len, lines)) <= min(width, 90)


def test_equal_labels_stay_separate_rows() -> None:
    assert len(shown(table(["token", "p"], [("a", 0.5), ("a", 0.25), ("a", 0.25)]))) == 2 + 3


def test_a_table_without_rows_has_its_head() -> None:
    assert shown(table(["name", "loss"], []))[0].split() == ["name", "loss"]
    assert shown(fact_table("Nothing", [])) in (["Nothing"], [])
