"""What tests of the lesson files share: examples run once, the values they expect, the facts that fail."""

from collections.abc import Iterable
from functools import cache

import torch

from nextok.lessons.worked import Example, One, Worked, pick


@cache
def worked(example: Example) -> Worked:
    """Returns the example, run once for all tests; it must leave torch's generator and threads as they were."""
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    result = example.run()
    assert torch.equal(torch.random.get_rng_state(), state), f"{example.name} moved the global generator"
    assert torch.get_num_threads() == threads, f"{example.name} changed the number of threads"
    return result


def wrong(result: Worked) -> list[str]:
    """Returns what does not hold, spelled for a message."""
    return [f"{fact.what}: {fact.expected} is {fact.computed}" for fact in result.facts if not fact.holds]


def wrong_now(examples: Iterable[Example], name: str) -> set[str]:
    """Returns the names of the facts that do not hold when the example runs anew."""
    [example] = pick(list(examples), name)
    return {fact.what for fact in example.run().facts if not fact.holds}


def expected(examples: Iterable[Example], name: str) -> set[One]:
    """Returns every single value that the example expects."""
    [example] = pick(list(examples), name)
    values = [fact.expected for fact in worked(example).facts]
    return {one for value in values for one in (value if isinstance(value, tuple) else (value,))}


def corrections(examples: Iterable[Example]) -> str:
    """Returns all corrections of the examples, one a line."""
    return "\n".join(line for example in examples for line in worked(example).corrections)


def assert_well_formed(example: Example) -> None:
    """Sees that a reader is told everything: question, answer, why, rows as wide as their heads."""
    result = worked(example)
    assert result.question.endswith("?")
    assert result.answer.endswith(".")
    assert result.facts
    assert len({fact.what for fact in result.facts}) == len(result.facts), "two facts have the same name"
    assert 2 <= result.why.count(".") <= 40
    for grid in result.grids:
        assert all(len(row) == len(grid.columns) for row in grid.rows), grid.title
    assert all(line.startswith("Printed: ") and " Right: " in line for line in result.corrections)
