"""A run as its directory tells it, and which runs are one recipe under several seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.errors import CheckpointError

# Options that say where and how often, not what is learned; sources and tokenizer are known by their fingerprints.
_NEUTRAL = frozenset({"out", "sources", "steps", "tokens", "minutes", "tokenizer", "preset", "recipe"})
_NEUTRAL_TRAINING = frozenset(
    {"seed", "device", "threads", "compile", "log_every_steps", "eval_every_steps", "save_every_steps", "keep_last",
     "sample_tokens", "sample_prompt", "pause_after_steps", "track", "micro_batch_size"}
)  # fmt: skip
_TEXT = ("fingerprint", "tokenizer", "train_tokens", "validation_tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a run directory says."""

    path: Path
    seed: int
    step: int
    """Steps done."""
    steps: int
    """Steps planned."""
    tokens: int
    """Training tokens seen, repeats included."""
    seconds: float
    """In the training loop."""
    train_loss: float | None
    """Last, nats per token."""
    val_loss: float | None
    """Last, nats per token."""
    best_val_loss: float | None
    best_bits_per_byte: float | None
    best_step: int | None
    findings: tuple[str, ...]
    """What the doctor found, in its words."""
    text: Mapping[str, Any]
    """Fingerprint of the corpus and the tokenizer, and sizes of the splits."""
    corpus: Path
    """Folder of its token shards."""
    options: Mapping[str, Any]
    """All that decides what is learned but the seed, flat."""
    records: Sequence[Mapping[str, Any]]
    """Its lines of metrics."""


def read_run(path: Path) -> Run:
    """Returns what a run directory says.

    Raises:
        CheckpointError: if there is no run, or it has no metrics yet.
    """
    directory = RunDirectory.open(path)
    record, records = directory.read_run(), read_metrics(directory.metrics)
    if not records:
        raise CheckpointError(f"{path} has no metrics yet.", "Let it run to its first line of metrics.")
    evaluated = [row for row in records if row.get("val_loss") is not None]
    best = min(evaluated, key=lambda row: row["val_loss"], default={})
    return Run(
        path=path,
        seed=record["seed"],
        step=records[-1]["step"],
        steps=record["steps"],
        tokens=records[-1]["tokens"],
        seconds=records[-1]["seconds"],
        train_loss=next((row["train_loss"] for row in reversed(records) if row.get("train_loss") is not None), None),
        val_loss=evaluated[-1]["val_loss"] if evaluated else None,
        best_val_loss=best.get("val_loss"),
        best_bits_per_byte=best.get("val_bits_per_byte"),
        best_step=best.get("step"),
        findings=tuple(f"step {row['step']:,}: {row['text']}" for row in read_metrics(directory.findings)),
        text={name: record["corpus"][name] for name in _TEXT},
        corpus=path / record["corpus"]["folder"],
        options=_options(record),
        records=records,
    )


def groups_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Returns the runs in groups that differ in nothing but the seed, in the order of their first runs.

    A second run with the same seed is a repetition, not another sample of what seeds do, so it stands alone.
    """
    groups: list[list[Run]] = []
    for run in runs:
        home = next(
            (
                group
                for group in groups
                if _identity(group[0]) == _identity(run) and run.seed not in [each.seed for each in group]
            ),
            None,
        )
        if home is None:
            groups.append([run])
        else:
            home.append(run)
    return groups


def differing_options(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Returns the options in which runs differ, the seed among them: for each the value of every run, None for none."""
    tables = [_shown(run) for run in runs]
    names = list(dict.fromkeys(name for table in tables for name in table))
    found = {name: [table.get(name) for table in tables] for name in names}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def _identity(run: Run) -> dict[str, Any]:
    return {**run.options, **run.text}


def _shown(run: Run) -> dict[str, Any]:
    return {"seed": run.seed, **{f"text.{name}": value for name, value in run.text.items()}, **run.options}


def _options(record: Mapping[str, Any]) -> dict[str, Any]:
    options = record["options"]
    training = {name: value for name, value in options["train"].items() if name not in _NEUTRAL_TRAINING}
    return {
        "steps": record["steps"],
        **{name: value for name, value in options.items() if name not in _NEUTRAL and not isinstance(value, dict)},
        **_flat("model", record["model"]),
        **_flat("corpus", options["corpus"]),
        **_flat("train", training),
    }


def _flat(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in table.items()}
