"""Runs to fit a law to, read from a CSV: one run a row, strict, bounded, and nothing left out in silence."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from nextok.errors import InputError
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN

DONE = ("done", "ok")
"""What the status column says of a run that came to its end; every other is listed and not fitted."""
MOST_RUNS = 10_000
MOST_BYTES = 64 * 1024 * 1024
NO_SEED = -1
"""Seed of a run whose table has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Names of the columns; the defaults are those of a table of runs that nextok writes."""

    params: str = "params"
    """Column of N, the parameters."""
    loss: str = "loss"
    """Column of the final loss."""
    tokens: str | None = None
    """Column of D, the training tokens. None: the column `tokens`, or where there is none, by `flops`."""
    flops: str | None = None
    """Column of C, the training compute, from which D = C / (6 N); instead of the tokens."""
    seed: str = "seed"
    """Column of the seed; may be absent."""
    status: str = "status"
    """Column that says `done` of a finished run; may be absent."""

    def __post_init__(self) -> None:
        if self.tokens is not None and self.flops is not None:
            raise InputError("Both --tokens and --flops name a column.", "D comes from one of them: name one.")


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A row that is not fitted, and why."""

    line: int
    """Line of the file."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runs:
    """Finished runs: what each had, and what it came to."""

    N: Float[np.ndarray, " R"]
    """Parameters."""
    D: Float[np.ndarray, " R"]
    """Training tokens."""
    loss: Float[np.ndarray, " R"]
    """Final loss."""
    seed: Int[np.ndarray, " R"]
    """Seeds; `NO_SEED` where the table has none."""
    line: Int[np.ndarray, " R"]
    """Lines of the file."""
    left_out: tuple[LeftOut, ...] = ()
    """Rows of the same file that are not here."""

    def __len__(self) -> int:
        return len(self.N)

    @property
    def C(self) -> Float[np.ndarray, " R"]:  # noqa: N802 - the paper's letter
        """Returns 6 N D of every run."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.N * self.D

    def take(self, chosen_M: Int[np.ndarray, " M"], left_out: Sequence[LeftOut] = ()) -> "Runs":
        """Returns the runs of these positions, with more rows among those left out."""
        columns = {name: getattr(self, name)[chosen_M] for name in ("N", "D", "loss", "seed", "line")}
        return replace(self, **columns, left_out=(*self.left_out, *left_out))

    def without_highest(self, count: int) -> "Runs":
        """Returns the runs without those of the highest losses, which are listed as left out.

        Raises:
            InputError: if none would be left, or the count is negative.
        """
        if not 0 <= count < len(self):
            raise InputError(f"--drop-highest {count} does not fit a table of {len(self)} finished runs.")
        from_high = np.argsort(-self.loss, kind="stable")
        dropped = [
            LeftOut(line=int(self.line[each]), reason=f"loss {self.loss[each]:.4g} is among the {count} highest")
            for each in from_high[:count]
        ]
        return self.take(np.sort(from_high[count:]), dropped)


def runs_of(N: Sequence[float], D: Sequence[float], loss: Sequence[float], seed: Sequence[int] | None = None) -> Runs:
    """Returns runs from columns that are at hand, numbered as lines 1, 2, ...

    Raises:
        InputError: if the columns differ in length, or a number is not above 0.
    """
    columns = [np.asarray(column, np.float64) for column in (N, D, loss)]
    seed_R = np.full(len(N), NO_SEED) if seed is None else np.asarray(seed, np.int64)
    if len({len(column) for column in (*columns, seed_R)}) > 1:
        raise InputError(f"The columns are {[len(column) for column in (*columns, seed_R)]} long.")
    for name, column in zip(("N", "D", "loss"), columns, strict=True):
        if not (np.isfinite(column) & (column > 0)).all():
            raise InputError(f"A {name} among these runs is not above 0.")
    return Runs(N=columns[0], D=columns[1], loss=columns[2], seed=seed_R, line=np.arange(1, len(N) + 1))


def read_runs(path: Path, columns: Columns | None = None) -> Runs:
    """Returns the finished runs of a CSV with a header.

    A row with another status than `done`, or whose loss is empty or not finite, is left out and listed.

    Raises:
        InputError: if the file cannot be read, is no such table, or a finished run has a number that is not above 0.
    """
    columns = columns or Columns()
    rows = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = next(rows, [])
        table = _Table(path, [name.strip() for name in header], columns)
        kept, left_out = _sorted_out(table, _numbered(rows, path, len(header)))
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}, is not CSV: {error}.") from error
    N, D, loss, seed, line = ([row[k] for row in kept] for k in range(5))
    read = runs_of(N, D, loss, [int(each) for each in seed])
    return replace(read, line=np.array(line, np.int64), left_out=tuple(left_out))


class _Table:
    """The header of a file, and its cells as numbers."""

    def __init__(self, path: Path, header: list[str], columns: Columns) -> None:
        self.path, self.header = path, header
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{path} has two columns named {twice!r}.")
        self.params, self.loss = self._at(columns.params, "--params"), self._at(columns.loss, "--loss")
        self.by_flops = columns.flops is not None or (columns.tokens is None and "tokens" not in header)
        self.amount = (
            self._at(columns.flops or "flops", "--tokens or --flops")
            if self.by_flops
            else self._at(columns.tokens or "tokens", "--tokens")
        )
        self.seed = header.index(columns.seed) if columns.seed in header else None
        self.status = header.index(columns.status) if columns.status in header else None

    def number(self, row: list[str], place: int, line: int) -> float:
        try:
            value = float(row[place].replace("_", "x"))  # Python reads 1_0 as ten
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise InputError(
                f"{self.path}, line {line}: {self.header[place]} = {row[place][:40]!r} is not a number above 0."
            )
        return value

    def seed_of(self, row: list[str], line: int) -> int:
        if self.seed is None or not row[self.seed].strip():
            return NO_SEED
        text = row[self.seed].strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise InputError(
                f"{self.path}, line {line}: seed {text[:40]!r} is not a whole number of 18 digits or less."
            )
        return int(text)

    def reason_to_leave(self, row: list[str]) -> str:
        status = "" if self.status is None else row[self.status].strip()
        if status and status.lower() not in DONE:
            return f"its status is {status[:40]!r}"
        if row[self.loss].strip().lower() in ("", "nan", "inf", "+inf", "infinity", "none", "null"):
            return "it has no finite loss"
        return ""

    def _at(self, name: str, flag: str) -> int:
        if name not in self.header:
            known = ", ".join(repr(each) for each in self.header[:20]) or "none"
            raise InputError(f"{self.path} has no column {name!r}; it has {known}.", f"Name it with {flag}.")
        return self.header.index(name)


_Row = tuple[float, float, float, int, int]


def _sorted_out(table: _Table, rows: Iterator[tuple[int, list[str]]]) -> tuple[list[_Row], list[LeftOut]]:
    kept: list[_Row] = []
    left_out: list[LeftOut] = []
    for line, row in rows:
        reason = table.reason_to_leave(row)
        if reason:
            left_out.append(LeftOut(line=line, reason=reason))
            continue
        N, amount, loss = (table.number(row, place, line) for place in (table.params, table.amount, table.loss))
        D = amount / (FLOPS_PER_PARAMETER_AND_TOKEN * N) if table.by_flops else amount
        kept.append((N, D, loss, table.seed_of(row, line), line))
    return kept, left_out


def _numbered(rows: Iterator[list[str]], path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty with their lines."""
    count = 0
    for row in rows:
        line = rows.line_num  # type: ignore[attr-defined]  # of csv's reader
        if not row:
            continue
        if len(row) != width:
            raise InputError(f"{path}, line {line}, has {len(row)} fields, and the header has {width}.")
        count += 1
        if count > MOST_RUNS:
            raise InputError(f"{path} has more than {MOST_RUNS:,} runs.", "Fit fewer; no law needs so many.")
        yield line, row


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{path} is {size:,} bytes; a table of runs has at most {MOST_BYTES:,}.")
        return path.read_text(encoding="utf-8-sig")  # spreadsheets put a byte-order mark first
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from error
