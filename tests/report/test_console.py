"""The console: no text, no encoding and no closed pipe can make it raise, and no text steers it."""

import io
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.report import make_console, plain_text

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "utf-8", "utf-16-le"])
@pytest.mark.parametrize("text", ["※ ▁▂▃ naïve — €", "日本 😀", "lone \ud800", "plain"])
def test_every_text_reaches_a_stream_of_every_encoding(encoding: str, text: str, strict: Any) -> None:
    stream = strict(encoding)
    make_console(stream).print(plain_text(text))
    assert stream.getvalue() == text.encode(encoding, "replace").decode(encoding) + "\n"


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_no_text_raises_or_leaves_a_control_character(text: str) -> None:
    stream = io.StringIO()
    make_console(stream).print(plain_text(text), soft_wrap=True)
    assert not {c for c in stream.getvalue() if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"}


def test_a_stand_alone_program_prints_under_an_ascii_stdout() -> None:
    program = "from nextok.report import make_console, plain_text; make_console().print(plain_text('\\u203b [b]x[/b]'))"
    env = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=env, check=True)
    assert done.stdout.split() == [b"?", b"[b]x[/b]"]


@pytest.mark.parametrize("text", ["[bold]a[/bold]", "[/]", "[link=x]", ":smile:", "\\[a]", "[@click=app.quit()]"])
def test_text_is_never_markup_even_as_a_plain_string(text: str, pipe: io.StringIO) -> None:
    make_console(pipe).print(text)
    make_console(pipe).print(plain_text(text))
    assert pipe.getvalue() == f"{text}\n{text}\n"


def test_terminal_codes_in_a_text_are_shown_not_obeyed(terminal: Any) -> None:
    make_console(terminal).print(plain_text("\x1b[31mred\x9b2J\x07\rover\r\nnext\ttab"))
    assert "\x1b[31m" not in terminal.getvalue()
    assert terminal.getvalue().startswith("\ufffd[31mred\ufffd2J\ufffd\ufffdover\nnext")


def test_colours_go_to_terminals_only_and_not_under_no_color(
    terminal: Any, pipe: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_console(terminal).print(plain_text("a", "red"))
    make_console(pipe).print(plain_text("a", "red"))
    assert "\x1b[" in terminal.getvalue()
    assert pipe.getvalue() == "a\n"
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    make_console(terminal).print(plain_text("a", "red"))
    assert "\x1b[31m" not in terminal.getvalue()


def test_the_width_is_the_one_asked_for(pipe: io.StringIO) -> None:
    console = make_console(pipe, width=40)
    console.print(plain_text("word " * 30))
    assert console.width == 40
    assert max(map(len, pipe.getvalue().splitlines())) <= 40


PIPED = """
import sys
from nextok.report import make_console
console = make_console()
for _ in range(300):  # 300 kB, more than a pipe holds
    console.print("x" * 1000, soft_wrap=True)
print("went on", file=sys.stderr)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX pipe")
def test_a_reader_that_leaves_ends_the_output_and_not_the_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PIPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "x" * 1000 + "\n"
        child.stdout.close()
        assert child.stderr.read() == "went on\n"
    assert child.returncode == 0


def test_importing_the_room_loads_no_plotting_and_no_arrays() -> None:
    program = "import sys, nextok.report; print({'matplotlib', 'numpy', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
