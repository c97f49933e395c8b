"""Text that arrives id by id, never half a character."""

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class TextStream(Protocol):
    """Turns ids into text as they come: all parts joined, that of `flush` last, are the decoded text of all ids."""

    def push(self, token_id: int) -> str:
        """Returns the characters that this id completes; often empty where a character has several ids."""

    def flush(self) -> str:
        """Returns what is still held back, unfinished characters as U+FFFD, and starts afresh."""


class ByteStream:
    """The stream of tokenizers whose ids stand for bytes.

    Args:
        token_bytes: Gives the bytes of an id.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Returns the characters whose last byte this id brings."""
        return self._decoder.decode(self._token_bytes(token_id))

    def flush(self) -> str:
        """Returns U+FFFD for an unfinished character, if there is one, and starts afresh."""
        return self._decoder.decode(b"", final=True)


class WindowStream:
    """The stream of tokenizers where the text of an id depends on its neighbours (leading spaces, joined word parts).

    It decodes a short window again at each id: the last ids already shown, for context, and those not yet shown.

    Args:
        decode: Gives the text of several ids.
        after: The ids that stand before the first one, as far as its text depends on them; their text is not given.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], after: Sequence[int] = ()) -> None:
        self._decode = decode
        self._shown: list[int] = list(after)
        self._waiting: list[int] = []

    def push(self, token_id: int) -> str:
        """Returns the text that the waiting ids add, once it does not end inside a character."""
        self._waiting.append(token_id)
        added = self._added()
        if not added or added.endswith("\ufffd"):
            return ""
        self._shown, self._waiting = self._waiting, []
        return added

    def flush(self) -> str:
        """Returns the text of the ids still waiting and starts afresh."""
        added = self._added()
        self._shown, self._waiting = [], []
        return added

    def _added(self) -> str:
        return self._decode([*self._shown, *self._waiting])[len(self._decode(self._shown)) :]
