"""Characters to ids by table, and what to say of a character that the table does not have."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nextok.errors import UnknownCharacterError

Unknown = Literal["error", "drop", "replace"]
REPLACEMENTS = ("\ufffd", "?", " ")

_WORD_END = re.compile(r"\S*\Z")
_WORD_START = re.compile(r"\A\S*")


class CharacterTable:
    """The ids of a character vocabulary by code point.

    Args:
        ids: The id of each character.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = dict(ids)
        highest = max((ord(character) for character in ids), default=-1)
        self._id_of = np.full(highest + 2, -1, dtype=np.int32)  # the last place answers for all higher code points
        for character, token_id in ids.items():
            self._id_of[ord(character)] = token_id

    def encode(self, text: str, *, unknown: Unknown, original: str) -> NDArray[np.int64]:
        """Returns the ids [T] of well-formed text; `original` is the text as it came, for positions in messages.

        Raises:
            UnknownCharacterError: for a character without an id, if `unknown` is `error`, or `replace` and the
                vocabulary has none of U+FFFD, `?` and space.
        """
        points_T = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        ids_T = self._id_of[np.minimum(points_T, len(self._id_of) - 1)].astype(np.int64)
        missing_T = ids_T < 0
        if not missing_T.any():
            return ids_T
        if unknown == "drop":
            return ids_T[~missing_T]
        position = int(missing_T.argmax())
        if unknown == "replace":
            ids_T[missing_T] = self._replacement(text[position])
            return ids_T
        raise self._unknown_character(text, position, original)

    def _replacement(self, character: str) -> int:
        for replacement in REPLACEMENTS:
            if replacement in self._ids:
                return self._ids[replacement]
        raise UnknownCharacterError(
            f"{_named(character)} is not in the vocabulary, which has none of U+FFFD, ? and space to put in its place.",
            "Use unknown = drop (--unknown drop) to leave unknown characters out.",
        )

    def _unknown_character(self, text: str, position: int, original: str) -> UnknownCharacterError:
        character = text[position]
        found = original.find(character)
        cure = self._curing_forms(character, _word_around(text, position))
        advice = f"Normalising the text to {' or '.join(cure)} cures it; or use" if cure else "Use"
        return UnknownCharacterError(
            f"{_named(character)} at position {position if found < 0 else found} is not among the "
            f"{len(self._ids)} characters of the vocabulary.",
            f"{advice} unknown = drop (--unknown drop: leave such characters out) or replace (put U+FFFD, ? or space).",
        )

    def _curing_forms(self, character: str, word: str) -> list[str]:
        forms: tuple[Any, ...] = ("NFC", "NFD", "NFKC", "NFKD")
        left = self._unknown_in(word) - {character}
        cures = [form for form in forms if self._unknown_in(unicodedata.normalize(form, word)) <= left]
        return [form for form in cures if form in ("NFC", "NFD")] or cures

    def _unknown_in(self, text: str) -> set[str]:
        return {character for character in text if character not in self._ids}


def _named(character: str) -> str:
    shown = f"{character!r} " if character.isprintable() else ""
    name = unicodedata.name(character, "")
    return f"Character {shown}(U+{ord(character):04X}{', ' + name if name else ''})"


def _word_around(text: str, position: int, reach: int = 32) -> str:
    """Returns the word at the position, which holds whatever a normal form could join or take apart there."""
    before, after = text[max(0, position - reach) : position], text[position : position + reach]
    return before[len(before) - len(_WORD_END.search(before)[0]) :] + _WORD_START.search(after)[0]  # type: ignore[index]
