"""`compare_runs`: the best losses of runs, and whether they differ by more than noise.

Two single runs are scored on the same validation text, piece by piece: their interval tells whether one model is better
on texts of this kind, and says nothing of other seeds. Several seeds of a side tell that too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nextok.comparison.runs import Run, differing_options, groups_of, read_run
from nextok.corpus import PreparedCorpus, open_corpus
from nextok.errors import ConfigError, NextokError
from nextok.evals import Interval, PieceLosses, paired_interval, piece_losses, unpaired_interval
from nextok.interop import open_runnable
from nextok.model import filled

Unit = Literal["nats per token", "bits per byte"]
OnScored = Callable[[Path], object]
_LEVEL = 0.95
_SEEDS_TOLD = "This covers the seeds, on this validation text."
_TEXT_TOLD = "This covers the text, not the seeds: other seeds may turn it. Give several seeds of each to know."


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The best loss of a group of runs less that of the first group."""

    runs: tuple[str, ...]
    beside: tuple[str, ...]
    """Runs of the first group."""
    unit: Unit | None
    """What was compared; none where the losses are of different texts."""
    difference: float | None
    """Below 0: these runs are better."""
    interval: Interval | None
    note: str
    """What the interval covers, or why there is none."""

    @property
    def more_than_noise(self) -> bool | None:
        """Whether the difference is more than noise; none where that cannot be told."""
        return None if self.interval is None else self.interval.excludes_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Runs beside each other."""

    runs: tuple[Run, ...]
    groups: tuple[tuple[str, ...], ...]
    """Runs that differ in nothing but the seed."""
    options: dict[str, list[Any]]
    """Options that differ, with the value of each run."""
    differences: tuple[Difference, ...]
    """Of each further group from the first."""


def compare_runs(paths: Sequence[Path], *, on_scored: OnScored | None = None) -> Comparison:
    """Returns the runs beside each other.

    With three groups or more the intervals are wider, so that all of them together hold with 95 % confidence.

    Args:
        paths: Two run directories or more.
        on_scored: Called with each run whose model has been scored.

    Raises:
        CheckpointError: if a path is no run, or has no metrics yet.
        ConfigError: for fewer than two runs, or one named twice.
    """
    if len(paths) < 2 or len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("compare needs two runs or more, each named once.", "nextok compare runs/a runs/b")
    runs = [read_run(path) for path in paths]
    first, *others = groups_of(runs)
    level = 1 - (1 - _LEVEL) / max(1, len(others))
    scored = _Scores(on_scored)
    return Comparison(
        runs=tuple(runs),
        groups=tuple(_names(group) for group in (first, *others)),
        options=differing_options(runs),
        differences=tuple(_difference(first, group, level, scored) for group in others),
    )


class _Scores:
    """The loss of each model over its own validation split, computed once."""

    def __init__(self, on_scored: OnScored | None) -> None:
        self._found: dict[Path, PieceLosses] = {}
        self._on_scored = on_scored

    def of(self, run: Run) -> PieceLosses:
        if run.path not in self._found:
            split = _corpus_of(run).validation
            assert split is not None, "the run has a validation loss"
            stored = open_runnable(run.path)
            self._found[run.path] = piece_losses(filled(stored.config, stored.arrays), split)
            if self._on_scored is not None:
                self._on_scored(run.path)
        return self._found[run.path]


def _difference(first: list[Run], group: list[Run], level: float, scores: _Scores) -> Difference:
    unit, reason = _unit(first[0], group[0])
    a, b = _best(first, unit), _best(group, unit)
    if unit is None or not a or not b:
        return _told(first, group, None, None, None, reason or "A run has no validation loss.")
    difference = float(np.mean(b) - np.mean(a))
    if len(a) + len(b) > 2:
        return _told(first, group, unit, difference, unpaired_interval(a, b, level=level), _SEEDS_TOLD)
    if unit == "bits per byte":
        note = f"{reason} Whether that is noise, several seeds of each can tell."
        return _told(first, group, unit, difference, None, note)
    try:
        a_pieces, b_pieces = scores.of(first[0]), scores.of(group[0])
    except NextokError as error:
        return _told(first, group, unit, difference, None, f"The models could not be scored: {error.message}")
    interval = paired_interval(a_pieces.nats_G, b_pieces.nats_G, a_pieces.tokens_G, level=level)
    note = _TEXT_TOLD if interval is not None else "The validation text is too short for an interval."
    return _told(first, group, unit, difference if interval is None else interval.difference, interval, note)


def _told(
    first: list[Run],
    group: list[Run],
    unit: Unit | None,
    difference: float | None,
    interval: Interval | None,
    note: str,
) -> Difference:
    return Difference(
        runs=_names(group), beside=_names(first), unit=unit, difference=difference, interval=interval, note=note
    )


def _unit(a: Run, b: Run) -> tuple[Unit | None, str]:
    """Returns what two runs can be compared in, and why not in nats per token."""
    if a.text["fingerprint"] != b.text["fingerprint"]:
        return None, "The runs were trained on different texts, so their losses cannot be compared."
    cuts = [{name: value for name, value in run.options.items() if name.startswith("corpus.")} for run in (a, b)]
    if cuts[0] != cuts[1]:
        return None, "The runs keep different parts of the text for validation, so their losses cannot be compared."
    if a.text["tokenizer"] != b.text["tokenizer"]:
        return "bits per byte", "The tokenizers differ, so nats per token mean different things."
    if a.text["validation_tokens"] != b.text["validation_tokens"]:
        return None, "The validation splits differ in length, so their losses cannot be compared."
    return "nats per token", ""


def _best(group: list[Run], unit: Unit | None) -> list[float]:
    found = [run.best_bits_per_byte if unit == "bits per byte" else run.best_val_loss for run in group]
    return [value for value in found if value is not None]


def _corpus_of(run: Run) -> PreparedCorpus:
    corpus = open_corpus(run.corpus)
    if (corpus.fingerprint, corpus.tokenizer.fingerprint) != (run.text["fingerprint"], run.text["tokenizer"]):
        raise ConfigError(f"{run.corpus} is not the corpus that {run.path} was trained on.")
    return corpus


def _names(group: Sequence[Run]) -> tuple[str, ...]:
    return tuple(str(run.path) for run in group)
