"""Streams that tests write to, a clock that they turn, and a terminal of known abilities."""

import io
from collections.abc import Callable
from typing import Any

import pytest


class Terminal(io.StringIO):
    """Says that it is a terminal and keeps what is written."""

    encoding = "utf-8"  # type: ignore[assignment]
    error: Exception | None = None  # raised by every write once it is set

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> Any:
        if self.error is not None:
            raise self.error
        return super().write(text)


class StrictStream(io.TextIOWrapper):
    """Raises for what its encoding cannot hold, as a console of that code page does."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)

    def getvalue(self) -> str:
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


class Clock:
    """Seconds that pass by `tick` at every look, and else only when set."""

    now = 100.0
    tick = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture(autouse=True)
def known_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def pipe() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def strict() -> Callable[[str], StrictStream]:
    return StrictStream


@pytest.fixture
def clock() -> Clock:
    return Clock()
