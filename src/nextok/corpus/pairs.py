"""Pairs of a prompt and its completion: records of JSON lines whose completions alone are learned and scored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nextok.errors import CorpusError

Role = Literal["text", "prompt", "completion"]
"""What a stretch of a document is: a plain text and a completion are learned, a prompt is only read."""

_FIELDS = ("prompt", "completion")
_SHAPE = 'Each line must be {"prompt": "...", "completion": "..."}.'


@dataclass(frozen=True, slots=True)
class Pair:
    """A document of two parts, encoded one by one and joined."""

    prompt: str
    """What is given; may be empty."""
    completion: str
    """What is learned; never empty."""

    def parts(self) -> tuple[tuple[Role, str], tuple[Role, str]]:
        """Returns both parts in their order, with their roles."""
        return ("prompt", self.prompt), ("completion", self.completion)


def holds_pairs(record: Mapping[str, Any], text_field: str) -> bool:
    """Says whether the first record of a file makes it a file of pairs; a field that holds a whole text goes before."""
    return text_field not in record and any(name in record for name in _FIELDS)


def read_pair(record: Mapping[str, Any], where: str) -> Pair:
    """Returns the pair of a record.

    Raises:
        CorpusError: if it is anything but two strings, the second not empty, under these two names.
    """
    for name in _FIELDS:
        if name not in record:
            raise CorpusError(f"{where} has no {name!r}; fields present: {', '.join(record) or 'none'}.", _SHAPE)
        if not isinstance(record[name], str):
            raise CorpusError(f"{where} has {name} = {repr(record[name])[:40]}, which is not text.", _SHAPE)
    other = next((name for name in record if name not in _FIELDS), None)
    if other is not None:
        raise CorpusError(f"{where} has {other!r} beside its pair, which nothing would read.", _SHAPE)
    if not record["completion"]:
        raise CorpusError(f"{where} has an empty completion: there is nothing to learn from it.", "Leave it out.")
    return Pair(record["prompt"], record["completion"])
