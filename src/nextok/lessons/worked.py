"""What a worked example is: a question, facts with expected beside computed, and why.

Expected values are the lessons' own, or corrected ones where a lesson errs; computed ones come from the code that the
rest of the package runs. An example that cannot go wrong would teach nothing: every number shown is one or the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

One = int | float | str | bool
Value = One | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One value of a lesson, expected and computed."""

    what: str
    """What the value is."""
    expected: Value
    """As the lesson (corrected) has it."""
    computed: Value
    """As it came out here."""
    tolerance: float = 0.0
    """Largest difference that still counts as equal; 0 for counts, ids and words."""

    @property
    def holds(self) -> bool:
        """Returns whether computed is expected, to the tolerance."""
        expected, computed = _as_tuple(self.expected), _as_tuple(self.computed)
        return len(expected) == len(computed) and all(
            _equal(one, other, self.tolerance) for one, other in zip(expected, computed, strict=True)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A small table that belongs to an example."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Worked:
    """A worked example, run."""

    question: str
    """What to predict before looking, for `--quiz`."""
    answer: str
    """The answer in one sentence."""
    facts: tuple[Fact, ...]
    """What was computed; at least one."""
    why: str
    """The explanation."""
    grids: tuple[Grid, ...] = ()
    """Tables that go with it."""
    corrections: tuple[str, ...] = ()
    """Where the lesson page is wrong: as printed, then as it is."""

    @property
    def holds(self) -> bool:
        """Returns whether every fact holds."""
        return all(fact.holds for fact in self.facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A worked example that can be run by name."""

    name: str
    """As typed after `nextok lesson`."""
    lesson: str
    """Which lesson and where: `A, slides 10-12`."""
    title: str
    """What it shows, in a few words."""
    run: Callable[[], Worked]
    """Computes it."""
    slow: bool = False
    """Takes more than a few seconds; left out of `all`."""


def spelled(value: Value) -> str:
    """Returns the value as a reader writes it: 107,008; 4.0511; 5, 12, 3."""
    if isinstance(value, tuple):
        return ", ".join(spelled(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if 5e-4 <= abs(value) < 1e5 else f"{value:.3g}"


def as_given(value: Value) -> str:
    """Returns an expected value with the digits that it was given with: 4.84, 4.6550573."""
    if isinstance(value, tuple):
        return ", ".join(as_given(item) for item in value)
    return f"{value:.8g}" if isinstance(value, float) else spelled(value)


def pick(examples: Sequence[Example], name: str) -> list[Example]:
    """Returns the example of that name; `all` stands for every one that is not slow."""
    return [one for one in examples if one.name == name or (name == "all" and not one.slow)]


def _as_tuple(value: Value) -> tuple[One, ...]:
    return value if isinstance(value, tuple) else (value,)


def _equal(one: One, other: One, tolerance: float) -> bool:
    if isinstance(one, str) or isinstance(other, str) or tolerance == 0:
        return one == other
    return abs(float(one) - float(other)) <= tolerance
