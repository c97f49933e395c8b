"""`nextok lesson`: lists, runs, asks, and says by its exit code whether every value is the lesson's."""

import io
import json
import sys
from dataclasses import replace

import pytest

from nextok.cli import lesson
from nextok.lessons import Example, Fact, Worked
from nextok.lessons.catalogue import EXAMPLES

from .conftest import Nextok


def worked(computed: int) -> Worked:
    fact = Fact(what="a count", expected=107_008, computed=computed)
    return Worked(question="How many?", answer="So many.", facts=(fact,), why="Because.", corrections=("Printed: x.",))


@pytest.fixture
def two_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Example(name="right", lesson="A, slide 1", title="a right one", run=lambda: worked(107_008))
    slow = replace(right, name="slow", slow=True)
    wrong = Example(name="wrong", lesson="B", title="a wrong one", run=lambda: worked(107_009))
    monkeypatch.setattr(lesson, "EXAMPLES", (right, slow, wrong))


def test_list_names_every_example(nextok: Nextok) -> None:
    code, out, _ = nextok("lesson")
    assert code == 0
    assert all(example.name in out for example in EXAMPLES)
    listed = json.loads(nextok("lesson", "--json")[1])
    assert [row["name"] for row in listed] == [example.name for example in EXAMPLES]


@pytest.mark.usefixtures("two_examples")
def test_right_values_end_with_0_and_wrong_ones_with_1(nextok: Nextok) -> None:
    code, out, _ = nextok("lesson", "right")
    assert code == 0
    for shown in ("How many?", "107,008", "So many.", "Because.", "The lesson page errs. Printed: x."):
        assert shown in out
    assert "differs" not in out
    code, out, _ = nextok("lesson", "wrong")
    assert code == 1
    assert "differs" in out
    code, out, _ = nextok("lesson", "all")
    assert code == 1
    assert "2 examples, 2 values" in out
    assert "these differ: wrong" in out
    assert [one["holds"] for one in json.loads(nextok("lesson", "all", "--json")[1])] == [True, False]


def test_json_spells_what_is_no_number(nextok: Nextok) -> None:
    facts = {fact["what"]: fact for fact in json.loads(nextok("lesson", "mask-value", "--json")[1])[0]["facts"]}
    assert facts["-1e9 in float16"]["expected"] == "-inf"
    assert facts["-1e9 in float16"]["computed"] == "-inf"


@pytest.mark.usefixtures("two_examples")
def test_a_slow_example_says_so_first(nextok: Nextok) -> None:
    out = nextok("lesson", "slow")[1]
    assert out.startswith("Takes minutes.\n")
    assert "Takes minutes." not in nextok("lesson", "right")[1]


@pytest.mark.usefixtures("two_examples")
def test_the_readers_time_is_not_counted(nextok: Nextok, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = [0.0]
    monkeypatch.setattr(lesson.time, "perf_counter", lambda: ticks[0])
    monkeypatch.setattr(lesson, "_ask", lambda console: ticks.append(ticks.pop() + 60))
    assert "values in 0.0 s" in nextok("lesson", "all", "--quiz")[1]


@pytest.mark.usefixtures("two_examples")
def test_quiz_asks_before_it_answers(nextok: Nextok, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in ("42\n", ""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        code, out, _ = nextok("lesson", "right", "--quiz")
        assert code == 0
        assert out.index("How many?") < out.index("Your prediction:") < out.index("107,008") < out.index("So many.")


def test_digits_are_named_where_a_value_is_rounded(nextok: Nextok) -> None:
    line = "Equal to the digits that the lessons give."
    out = nextok("lesson", "numpy-loss")[1]
    assert line in out
    assert "4.6550573" in out
    assert line not in nextok("lesson", "mask")[1]


def test_unknown_example_names_the_nearest(nextok: Nextok) -> None:
    code, _, err = nextok("lesson", "greddy")
    assert code == 2
    assert "Did you mean 'greedy'?" in err
    assert nextok("lesson", "mask", "--quiz", "--json")[0] == 2
