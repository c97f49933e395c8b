"""`nextok compare RUN RUN [RUN...]`: runs beside each other, and whether their losses differ by more than noise."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from nextok import units
from nextok.cli.options import parse
from nextok.comparison import Comparison, Difference, Run, compare_runs
from nextok.files import to_json
from nextok.report import WorkProgress, make_console, sparkline, table

ABOUT = (
    "Put runs beside each other: their curves, losses and options, and whether the difference is more than noise. "
    "Runs that differ in nothing but the seed count as one group; others are compared with the first."
)
_CURVE_WIDTH = 40
_SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN RUN...")]
    """Run directories, two or more."""
    plot: Path | None = None
    """Draw the curves over each other into this PNG."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="compare", about=ABOUT)
    console = make_console(sys.stderr if arguments.json else None)
    with WorkProgress(console, "Scoring", len(arguments.runs), unit="runs") as progress:
        comparison = compare_runs(arguments.runs, on_scored=lambda _: progress.advance(1))
    if arguments.plot is not None:
        from nextok.report.overlay import plot_overlay

        plot_overlay({str(run.path): run.records for run in comparison.runs}, arguments.plot)
    if arguments.json:
        print(to_json(_mapping(comparison), indent=2))
    else:
        _print(comparison, console)
        if arguments.plot is not None:
            console.print(f"curves: {arguments.plot}", soft_wrap=True)
    return 0


def _print(comparison: Comparison, console: Console) -> None:
    runs, names = comparison.runs, _names(comparison.runs)
    console.print(table(("", *names), _fact_rows(runs), title="losses in nats per token"))
    console.print(table(("training tokens", *names), _loss_rows(runs), title="validation loss on the way"))
    for name, line in zip(names, _curves(runs, ascii_only=console.options.ascii_only), strict=True):
        console.print(f"{name:<{max(map(len, names))}}  {line}", soft_wrap=True)
    options = [(option, *(_spelled(value) for value in values)) for option, values in comparison.options.items()]
    console.print(table(("option", *names), options, title="what differs") if options else "The options are the same.")
    for name, run in zip(names, runs, strict=True):
        for finding in run.findings:
            console.print(f"{name}, {finding}", soft_wrap=True)
    if not comparison.differences:
        console.print("These runs differ in nothing but the seed: there is nothing to decide between.", soft_wrap=True)
    for difference in comparison.differences:
        console.print(
            verdict(difference, dict(zip(map(str, (r.path for r in runs)), names, strict=True))), soft_wrap=True
        )


def verdict(difference: Difference, names: Mapping[str, str]) -> str:
    """Returns what a difference comes to, in words."""
    one, other = (" + ".join(names[run] for run in side) for side in (difference.runs, difference.beside))
    if difference.difference is None:
        return f"{one} beside {other}: {difference.note}"
    better = "lower" if difference.difference < 0 else "higher"
    said = f"{one} ends {abs(difference.difference):.4f} {difference.unit} {better} than {other}"
    if difference.interval is None:
        return f"{said}. {difference.note}"
    interval = difference.interval
    weight = "more than noise" if interval.excludes_zero else "no more than noise"
    bounds = f"{100 * interval.level:.3g} % interval {interval.low:+.4f} to {interval.high:+.4f}"
    return f"{said}: {weight} ({bounds}). {difference.note}"


def _fact_rows(runs: Sequence[Run]) -> list[tuple[object, ...]]:
    facts = [_facts(run) for run in runs]
    return [(name, *(fact[name] for fact in facts)) for name in facts[0]]


def _facts(run: Run) -> dict[str, str | None]:
    return {
        "steps": f"{run.step:,}" if run.step == run.steps else f"{run.step:,} of {run.steps:,}",
        "training tokens": units.format_count(run.tokens),
        "time": units.format_seconds(run.seconds),
        "last training loss": _loss(run.train_loss),
        "last validation loss": _loss(run.val_loss),
        "best validation loss": _loss(run.best_val_loss),
        "at step": None if run.best_step is None else f"{run.best_step:,}",
        "bits per byte then": _loss(run.best_bits_per_byte),
    }


def _loss(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _loss_rows(runs: Sequence[Run]) -> list[tuple[object, ...]]:
    """Returns the validation losses at a few counts of tokens that all runs have reached, between evaluations."""
    shared = min(run.tokens for run in runs)
    return [
        (units.format_count(share * shared), *(_loss(_loss_at(run, share * shared)) for run in runs))
        for share in _SHARES
    ]


def _loss_at(run: Run, tokens: float) -> float | None:
    known = [(row["tokens"], row["val_loss"]) for row in run.records if row.get("val_loss") is not None]
    if not known or tokens < known[0][0]:
        return None
    return float(np.interp(tokens, [at for at, _ in known], [loss for _, loss in known]))


def _curves(runs: Sequence[Run], *, ascii_only: bool) -> list[str]:
    """Returns the training losses to one scale, each as long as its run is beside the longest."""
    losses = [[row.get("train_loss") for row in run.records] for run in runs]
    known = [loss for curve in losses for loss in curve if loss is not None]
    bounds = (min(known), max(known)) if known else (0.0, 1.0)
    longest = max(run.tokens for run in runs)
    widths = [max(1, round(_CURVE_WIDTH * run.tokens / longest)) for run in runs]
    return [
        sparkline(curve, width, ascii_only=ascii_only, bounds=bounds)
        for curve, width in zip(losses, widths, strict=True)
    ]


def _names(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the folders, or their whole paths where two are named alike."""
    short = [run.path.name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.path) for run in runs]


def _spelled(value: object) -> object:
    return value[:12] if isinstance(value, str) else value if isinstance(value, int | float) else str(value)


def _mapping(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison for one JSON object, without the curves and options that the run directories hold."""
    left_out = ("records", "options", "text", "corpus")
    runs = [
        {name: value for name, value in asdict(run).items() if name not in left_out} | {"path": str(run.path)}
        for run in comparison.runs
    ]
    differences = [asdict(each) | {"more_than_noise": each.more_than_noise} for each in comparison.differences]
    return {"runs": runs, "groups": comparison.groups, "options": comparison.options, "differences": differences}
