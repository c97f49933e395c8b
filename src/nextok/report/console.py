"""A console that can show any text on any stream.

What the stream's encoding cannot hold becomes `?`; nothing in a text is read as markup, emoji names or terminal codes.
Colours follow rich: none on a pipe, none under NO_COLOR.
"""

import contextlib
import os
import re
import sys
from typing import Any, TextIO, cast

from rich.console import Console
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline; \x1b would steer the terminal


def make_console(stream: TextIO | None = None, *, width: int | None = None) -> Console:
    """Returns a rich console that no character and no closed pipe can make raise.

    Args:
        stream: Where to write; None for what `sys.stdout` is now.
        width: Characters in a line; None for the terminal's own width, 80 where there is none.
    """
    safe = cast(TextIO, _ReplacingStream(stream if stream is not None else sys.stdout))
    return _Console(file=safe, width=width, markup=False, emoji=False, highlight=False)


def plain_text(text: str, style: str = "") -> Text:
    """Returns text of unknown origin for printing: no markup, control characters replaced by U+FFFD."""
    return Text(_CONTROL.sub("\ufffd", text.replace("\r\n", "\n")), style=style)


class _ReplacingStream:
    """A text stream that writes `?` for what the encoding of the stream behind it cannot hold."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"  # StringIO has None
        return self._stream.write(text.encode(encoding, errors="replace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Console(Console):
    """Goes quiet when the reader of a pipe has left, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # Python flushes stdout once more when it exits; into the closed pipe, that would end in a traceback.
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())
