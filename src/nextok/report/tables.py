"""Tables of facts and of rows, plain and narrow, with numbers on the right."""

import re
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from nextok.report.console import plain_text

_TEXT_WIDTH = 60  # a longer text is folded, so that one long name does not starve the other columns
_QUANTITY = re.compile(r"[-+~<>]?[0-9][0-9,.]*(?:[eE][-+]?[0-9]+)?(?:\s?[A-Za-zµ%][A-Za-zµ/]*){0,2}\Z")


def fact_table(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """Returns one fact a line, its name on the left; text in it is shown as it is, never as markup."""
    facts = list(rows)
    shown = _new_table(title, show_header=False, box=None)
    shown.add_column(style="dim", no_wrap=True)
    _add_column(shown, "", [value for _, value in facts])
    for name, value in facts:
        shown.add_row(plain_text(name), _cell(value))
    return shown


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """Returns the rows under their column names; columns of numbers and quantities are right-aligned.

    Whole numbers get thousands separators, floats four digits, None a dash, strings stay as they are.
    """
    cells = [tuple(row) for row in rows]
    assert all(len(row) == len(columns) for row in cells), f"a row does not have {len(columns)} cells"
    shown = _new_table(title, show_header=True, box=SIMPLE_HEAD)
    for position, name in enumerate(columns):
        _add_column(shown, name, [row[position] for row in cells])
    for row in cells:
        shown.add_row(*(_cell(value) for value in row))
    return shown


def _new_table(title: str, *, show_header: bool, box: object) -> Table:
    heading = plain_text(title, "bold") if title else None
    return Table(
        title=heading,
        title_justify="left",
        show_header=show_header,
        box=box,  # type: ignore[arg-type]
        pad_edge=False,
        show_edge=False,
    )


def _add_column(shown: Table, name: str, values: list[object]) -> None:
    if values and all(_is_quantity(value) for value in values):
        shown.add_column(plain_text(name), justify="right", no_wrap=True)
    else:
        shown.add_column(plain_text(name), overflow="fold", max_width=_TEXT_WIDTH)


def _is_quantity(value: object) -> bool:
    if isinstance(value, str):
        return _QUANTITY.match(value) is not None
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(f"{value:.4g}") if isinstance(value, float) else plain_text(str(value))
