"""The loop on paper: numbers a reader can check."""

import io
from pathlib import Path

from nextok.cli.explain import show, step_lines
from nextok.loaded import load
from nextok.report import make_console


def test_each_line_of_a_step_tells_its_part(trained: Path) -> None:
    loaded = load(trained)
    events = list(loaded.stream("abc", explain=True, max_new_tokens=1, temperature=0))
    assert events[0].explanation is not None
    lines = step_lines(loaded, events[0].explanation)
    assert lines[0] == "position 3: reads 3 tokens: [a] [b] [c]"
    assert lines[1].startswith("  the model's distribution:")
    assert lines[-1].endswith("the likeliest (temperature 0)")


def test_long_contexts_are_cut_and_say_so(trained: Path) -> None:
    loaded = load(trained)
    (event,) = loaded.stream("abc def ghi jkl", explain=True, max_new_tokens=1)
    assert event.explanation is not None
    assert "reads 15 tokens: ... (3 more) [" in step_lines(loaded, event.explanation)[0]


def test_whole_text_comes_last(trained: Path) -> None:
    stream = io.StringIO()
    show(load(trained), "abc", {"max_new_tokens": 3, "temperature": 0.0}, make_console(stream, width=200))
    assert stream.getvalue().rstrip().splitlines()[-1].startswith("abc")
    assert "ended: length" in stream.getvalue()
