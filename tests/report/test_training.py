"""The training display: the same facts on a terminal and as lines, whatever a record holds and a stream does."""

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.report import TrainingDisplay, make_console

FULL = {
    "step": 1000,
    "steps": 5000,
    "train_loss": 1.84213,
    "val_loss": 1.90121,
    "val_bits_per_byte": 2.71234,
    "lr": 3e-4,
    "tokens_per_s": 41234.4,
    "flops_per_s": 1.86e12,
    "seconds": 63.21,
    "grad_norm": 0.8123,
}
LATER = {"step": 1010, "steps": 5000, "train_loss": 1.8, "lr": 3e-4, "seconds": 64.2}


def show(stream: Any, *records: Any, clock: Any, **options: Any) -> str:
    with TrainingDisplay(make_console(stream, width=100), "run", clock=clock, **options) as display:
        for record in records:
            display.update(record)
            clock.now += 2.0
    return stream.getvalue()


def test_a_line_holds_every_fact_by_name_without_spaces_in_values(pipe: io.StringIO, clock: Any) -> None:
    assert show(pipe, FULL, clock=clock).split() == [
        "step=1000/5000",
        "train_loss=1.8421",
        "lr=3.00e-04",
        "grad_norm=0.812",
        "tokens_per_s=41234",
        "flops_per_s=1.86e+12",
        "seconds=63.2",
        "val_loss=1.9012",
        "val_bits_per_byte=2.7123",
        "best_val_loss=1.9012",
    ]


def test_each_record_is_one_line_and_columns_stay_in_place(pipe: io.StringIO, clock: Any) -> None:
    lines = show(pipe, FULL, LATER, {**FULL, "step": 1020}, clock=clock).splitlines()
    assert len(lines) == 3
    assert len({line.index("seconds=") for line in lines}) == 1
    assert len({line.index("val_loss=") for line in (lines[0], lines[2])}) == 1
    assert "val_loss" not in lines[1]


def test_the_time_left_follows_the_pace(pipe: io.StringIO, clock: Any) -> None:
    lines = show(pipe, FULL, LATER, clock=clock).splitlines()
    assert "eta=" not in lines[0]
    assert "eta=13min18s" in lines[1]  # 3,990 steps left at 5 a second


def test_a_run_set_back_or_resumed_measures_its_pace_anew(pipe: io.StringIO, clock: Any) -> None:
    lines = show(pipe, LATER, {**LATER, "step": 500}, clock=clock, past=[FULL]).splitlines()
    assert "eta=" not in lines[0] + lines[1]


def test_the_best_loss_of_a_resumed_run_is_remembered(pipe: io.StringIO, clock: Any) -> None:
    past = [{"step": 500, "val_loss": 1.5}]
    assert "best_val_loss=1.5000" in show(pipe, FULL, clock=clock, past=past)


def test_the_terminal_shows_the_same_facts_and_the_curve(terminal: Any, clock: Any) -> None:
    records = [{**FULL, "step": 990, "train_loss": 2.5}, FULL]
    shown = show(terminal, *records, clock=clock)
    for fact in (
        "step 1,000/5,000",
        "1.8421",
        "1.9012",
        "2.7123",
        "41.2k tokens/s",
        "1.86 TFLOP/s",
        "3.00e-04",
        "0.812",
    ):
        assert fact in shown
    assert "at step 990" in shown
    assert "13 min 20 s left" in shown
    assert "█▁" in shown


def test_the_terminal_shows_each_number_once_it_is_known_and_none_before(terminal: Any, clock: Any) -> None:
    shown = show(terminal, {"step": 1}, clock=clock)
    assert "loss" not in shown
    assert "left" not in shown


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_the_display_and_the_samples_survive_every_encoding(encoding: str, strict: Any, clock: Any) -> None:
    for terminal in (False, True):
        stream = strict(encoding)
        stream.isatty = lambda terminal=terminal: terminal
        with TrainingDisplay(make_console(stream), "日本", clock=clock) as display:
            display.update(FULL)
            display.sample("Tea※ is \x1b[2J [b]hot[/b] \ud800", 1000)
            display.message("saved ✓")
        assert "? is ?[2J [b]hot[/b] ?" in stream.getvalue()
        assert "switched off" not in stream.getvalue()


def test_messages_and_samples_are_printed_as_they_are(pipe: io.StringIO, clock: Any) -> None:
    with TrainingDisplay(make_console(pipe), "run", clock=clock) as display:
        display.message("checkpoint saved: runs/[a]/checkpoints/step-000500")
        display.message("the corpus is small", warning=True)
        display.sample("ROMEO:\n  O!", 1500)
    assert pipe.getvalue().splitlines() == [
        "checkpoint saved: runs/[a]/checkpoints/step-000500",
        "warning: the corpus is small",
        "sample at step 1,500:",
        "ROMEO:",
        "  O!",
    ]


@pytest.mark.parametrize(
    "value", [None, math.nan, math.inf, "text", [], np.float32("nan"), np.ones(2), 10**400, object()]
)
@pytest.mark.parametrize("name", ["step", "steps", "train_loss", "val_loss", "lr", "seconds"])
def test_a_value_that_is_no_number_is_a_dash_and_ends_nothing(
    name: str, value: Any, terminal: Any, pipe: io.StringIO, clock: Any
) -> None:
    line = show(pipe, {**FULL, name: value}, LATER, clock=clock).splitlines()[0]
    assert f"{name}=-" in line or name == "steps"
    assert "switched off" not in show(terminal, {**FULL, name: value}, LATER, clock=clock)


@settings(max_examples=40, deadline=None)
@given(
    records=st.lists(
        st.dictionaries(st.sampled_from(list(FULL)), st.none() | st.floats() | st.integers() | st.text(), max_size=5),
        max_size=4,
    )
)
def test_no_record_makes_the_display_raise_or_give_up(records: list[dict[str, Any]]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    ticks = iter(range(10**6))
    for stream in (io.StringIO(), Terminal()):
        with TrainingDisplay(make_console(stream), "run", clock=lambda: float(next(ticks))) as display:
            for record in records:
                display.update(record)
        assert "switched off" not in stream.getvalue()


def test_numpy_scalars_are_numbers(pipe: io.StringIO, clock: Any) -> None:
    assert "train_loss=1.5000" in show(pipe, {"step": np.int64(1), "train_loss": np.float32(1.5)}, clock=clock)


def test_a_terminal_that_vanishes_ends_nothing(terminal: Any, clock: Any) -> None:
    with TrainingDisplay(make_console(terminal), "run", clock=clock) as display:
        display.update(FULL)
        terminal.error = OSError(5, "Input/output error")
        clock.now += 1.0
        display.update(LATER)
        display.message("still here")
        display.sample("text", 3)


@pytest.mark.parametrize("width", [5, 20, 60, 300])
def test_every_width_shows_four_lines(width: int, terminal: Any, clock: Any) -> None:
    with TrainingDisplay(make_console(terminal, width=width), "a long name " * 30, clock=clock) as display:
        for step in range(100):
            display.update({**FULL, "step": step})
    last = terminal.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert last.count("\n") <= 4
