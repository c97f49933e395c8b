"""From a file to its documents: one a file for text, one a record for JSON lines, CSV, TSV and Parquet.

JSON lines hold texts, or pairs of a prompt and a completion: the first record says which.

Text files are streamed whatever their size. A record is read whole, so it has a stated limit.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.decoding import decoded
from nextok.corpus.pairs import Pair, holds_pairs, read_pair
from nextok.corpus.sources import SourceFile
from nextok.errors import CorpusError, MissingExtraError

RECORD_LIMIT_CHARACTERS = 64 << 20
"""Longest line of JSON lines, CSV or TSV, and longest text in Parquet; text files have no limit."""

_PARQUET_BATCH_ROWS = 256
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_UNLESS_KEPT_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def documents_of(file: SourceFile, config: CorpusConfig, counts: ReadCounts) -> Iterator[Iterable[str] | Pair]:
    """Yields each document of the file, a text in pieces or a pair; take all pieces of one before the next.

    Raises:
        CorpusError: if the file cannot be read as what its suffix says, with the line where there is one.
        MissingExtraError: if the format needs a package that is not installed.
    """
    if file.format == "text":
        yield decoded(file, config, counts)
    elif file.format == "jsonl":
        yield from _json_lines(file, config, counts)
    elif file.format == "parquet":
        yield from _parquet(file, config, counts)
    else:
        yield from _delimited(file, config, counts)


def _json_lines(file: SourceFile, config: CorpusConfig, counts: ReadCounts) -> Iterator[list[str] | Pair]:
    pairs: bool | None = None
    for number, line in _lines(file, decoded(file, config, counts)):
        if not line or line.isspace():
            continue
        where = f"{file.path}, line {number},"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{where} is not valid JSON: {error}.", "Each line must hold one object.") from error
        if not isinstance(record, dict):
            raise CorpusError(f"{where} is not a JSON object: {line[:40]!r}.", "Each line must hold one object.")
        if pairs is None:
            pairs = holds_pairs(record, config.text_field)
        if pairs:
            yield _checked_pair(read_pair(record, where), where, config)
            continue
        if config.text_field not in record:
            raise _no_field(where, config.text_field, list(record))
        text = _as_text(record[config.text_field], where, config.text_field)
        yield [_without_lone_surrogates(text, where, config)]


def _checked_pair(pair: Pair, where: str, config: CorpusConfig) -> Pair:
    return Pair(*(_without_lone_surrogates(text, where, config) for _, text in pair.parts()))


def _delimited(file: SourceFile, config: CorpusConfig, counts: ReadCounts) -> Iterator[list[str]]:
    csv.field_size_limit(max(csv.field_size_limit(), RECORD_LIMIT_CHARACTERS))  # the module's own 128 KiB is too small
    lines = (line for _, line in _lines(file, decoded(file, config, counts)))
    reader = csv.reader(lines, delimiter="," if file.format == "csv" else "\t", strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        if config.text_field not in header:
            raise _no_field(f"{file.path}, line 1,", config.text_field, header)
        column = header.index(config.text_field)
        for row in reader:
            if row and column >= len(row):
                raise CorpusError(f"{file.path}, line {reader.line_num}, has {len(row)} of {len(header)} columns.")
            if row:
                yield [row[column]]
    except csv.Error as error:
        hint = "Quote fields that hold separators, quotes or line ends."
        raise CorpusError(f"{file.path}, line {reader.line_num}, is not valid {file.format}: {error}.", hint) from error


def _parquet(file: SourceFile, config: CorpusConfig, counts: ReadCounts) -> Iterator[list[str]]:
    if file.compression != "none":
        raise CorpusError(f"{file.path} is packed twice.", "Unpack it first: Parquet is compressed inside.")
    pyarrow, parquet = _pyarrow()
    try:
        before, size_bytes = counts.disk_bytes, file.path.stat().st_size
        with parquet.ParquetFile(file.path, buffer_size=1 << 20) as table:
            if config.text_field not in table.schema_arrow.names:
                raise _no_field(str(file.path), config.text_field, table.schema_arrow.names)
            row, rows = 0, max(1, table.metadata.num_rows)
            for batch in table.iter_batches(batch_size=_PARQUET_BATCH_ROWS, columns=[config.text_field]):
                for value in batch.column(0):
                    row += 1
                    yield [_as_text(value.as_py(), f"{file.path}, row {row},", config.text_field)]
                counts.disk_bytes = before + size_bytes * row // rows
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"Cannot read {file.path} as Parquet: {error}.", "Check that the file is whole.") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - optional extra
        import pyarrow.parquet  # noqa: PLC0415 - optional extra
    except ImportError as error:
        raise MissingExtraError("Reading Parquet files needs pyarrow.", "pip install 'nextok[formats]'") from error
    return pyarrow, pyarrow.parquet


def _lines(file: SourceFile, chunks: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yields lines with their number and line end. Only CR LF, CR and LF end one: U+2028 may stand inside JSON."""
    parts: list[str] = []
    length, number = 0, 1
    for chunk in chunks:
        for part in io.StringIO(chunk, newline=""):
            parts.append(part)
            length += len(part)
            if length > RECORD_LIMIT_CHARACTERS:
                raise _too_long(f"{file.path}, line {number},")
            if part.endswith(("\n", "\r")):
                yield number, "".join(parts)
                parts, length, number = [], 0, number + 1
    if parts:
        yield number, "".join(parts)


def _as_text(value: object, where: str, field: str) -> str:
    if value is None:  # counts as an empty document
        return ""
    if not isinstance(value, str):
        raise CorpusError(
            f"{where} has {field} = {repr(value)[:40]}, which is not text.", "Name another with --text-field."
        )
    if len(value) > RECORD_LIMIT_CHARACTERS:
        raise _too_long(where)
    return value


def _without_lone_surrogates(text: str, where: str, config: CorpusConfig) -> str:
    pattern = _SURROGATE_UNLESS_KEPT_BYTE if config.bad_bytes == "keep" else _SURROGATE
    if text.isascii() or pattern.search(text) is None:
        return text
    if config.bad_bytes == "replace":
        return pattern.sub("\ufffd", text)
    raise CorpusError(f"{where} holds half of a surrogate pair (\\ud800 to \\udfff).", "Use --bad-bytes replace.")


def _no_field(where: str, field: str, present: list[str]) -> CorpusError:
    names = ", ".join(present[:20]) or "none"
    return CorpusError(
        f"{where} has no field {field!r}; fields present: {names}.", "Name one of them with --text-field."
    )


def _too_long(where: str) -> CorpusError:
    limit = f"{RECORD_LIMIT_CHARACTERS:,} characters"
    return CorpusError(f"{where} is longer than {limit}.", "Split the record, or save it as a plain text file.")
