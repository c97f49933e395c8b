"""`nextok fit FILE`: the scaling law that your runs follow, how sure it is, and what speaks against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from nextok import units
from nextok.cli.options import parse
from nextok.errors import InputError
from nextok.files import to_json
from nextok.report import fact_table, make_console, table
from nextok.scaling import Columns, Counting, Fit, FitOptions, LossUnit, ParametricLaw, fit, intervals, power, read_runs

if TYPE_CHECKING:
    from nextok.scaling.envelopes import Approach

ABOUT = "Fit L(N, D) = E + A / N^alpha + B / D^beta to finished runs: a CSV with a row for each."
_LINES = 8  # of a list that may be long; --json has all


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments(FitOptions):
    """Options of the command."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.csv")]
    """The table of runs, with a header."""
    params: str = "params"
    """Column of N, the parameters."""
    loss: str = "loss"
    """Column of the final loss."""
    tokens: str | None = None
    """Column of D, the training tokens; `tokens` where there is one."""
    flops: str | None = None
    """Column of the training compute C instead, from which D = C / (6 N)."""
    seed_column: str = "seed"
    """Column of the seed, where there is one; runs that differ in it alone measure the noise."""
    status_column: str = "status"
    """Column of the status, where there is one; runs that are not done are listed and not fitted."""
    counting: Counting = "matmul"
    """What N counts; said in the file, so that plans and predictions count alike. nextok's tables: matmul."""
    loss_unit: LossUnit = "nats/token"
    """Unit of the losses."""
    corpus: str = ""
    """Name of the text, to keep with the law."""
    tokenizer: str = ""
    """Name of the tokenizer, to keep with the law."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FIT.json")] = None
    """Write the law for nextok plan and nextok predict."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE.png")] = None
    """Draw measured beside predicted, and what is left over along N and along D."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from nextok.scaling.envelopes import approaches  # with scipy

    arguments = parse(Arguments, argv, verb="fit", about=ABOUT)
    columns = Columns(
        params=arguments.params,
        loss=arguments.loss,
        tokens=arguments.tokens,
        flops=arguments.flops,
        seed=arguments.seed_column,
        status=arguments.status_column,
    )
    found = fit(read_runs(arguments.file, columns), arguments)
    others = approaches(found.runs)
    if arguments.json:
        print(to_json(_mapping(found, others, arguments), indent=2))
    else:
        _print(found, others, arguments, make_console())
    if arguments.plot is not None:
        _plot(found, arguments)
    if arguments.out is not None:
        _write(found, arguments, arguments.out)
    return 0


def _write(found: Fit, arguments: Arguments, path: Path) -> None:
    law = found.fitted_law(
        counting=arguments.counting,
        loss_unit=arguments.loss_unit,
        corpus=arguments.corpus,
        tokenizer=arguments.tokenizer,
    )
    law.write(path)


def _plot(found: Fit, arguments: Arguments) -> None:
    from nextok.report.scaling_plots import plot_panels
    from nextok.scaling.fit_panels import fit_panels

    if arguments.plot is None or found.law is None:
        raise InputError("There is no law to plot: the constants are not identified.")
    title = f"{len(found.runs)} runs of {arguments.file.name}"
    plot_panels(fit_panels(found, loss_unit=arguments.loss_unit), arguments.plot, title=title)


def _mapping(found: Fit, others: Sequence["Approach"], arguments: Arguments) -> dict[str, Any]:
    from nextok.config import to_mapping

    return {
        "file": str(arguments.file),
        "counting": arguments.counting,
        "loss_unit": arguments.loss_unit,
        **found.to_mapping(),
        "approaches": [to_mapping(each) for each in others],
    }


def _print(found: Fit, others: Sequence["Approach"], arguments: Arguments, console: Console) -> None:
    console.print(fact_table(f"Runs of {arguments.file.name}", _run_rows(found, arguments)))
    for each in found.runs.left_out[:_LINES]:
        console.print(f"Left out: line {each.line}, {each.reason}")
    _print_rest(len(found.runs.left_out), "rows left out", console)
    if found.law is None:
        console.print("E, A, B, alpha, beta, a: not identified")
        for reason in found.not_identified:
            console.print(f"  {reason}")
    else:
        columns = ("", "value", *(f"{found.options.level:.0%}, by {drawn.by}" for drawn in found.bootstraps))
        title = "L(N, D) = E + A / N^alpha + B / D^beta"
        console.print(table(columns, _constant_rows(found, found.law), title=title))
        console.print(fact_table("How well", _quality_rows(found, arguments)))
        _print_outliers(found, console)
    if found.law is not None or any(other.a is not None for other in others):
        console.print(table(("approach", "a", "+-", "minima"), _approach_rows(found, others)))
    for other in others:
        for reason in other.left_out[:_LINES]:
            console.print(f"Approach {other.name}: {reason}")


def _run_rows(found: Fit, arguments: Arguments) -> list[tuple[str, str]]:
    covered = found.covered()
    assert covered.N is not None and covered.D is not None and covered.C is not None
    return [
        ("fitted", f"{len(found.runs):,}, left out {len(found.runs.left_out):,}"),
        (f"N ({arguments.counting})", " to ".join(units.format_count(end) for end in covered.N)),
        ("D (tokens)", " to ".join(units.format_count(end) for end in covered.D)),
        ("C = 6 N D (FLOP)", " to ".join(power(end) for end in covered.C)),
        (f"loss ({arguments.loss_unit})", f"{found.runs.loss.min():.4g} to {found.runs.loss.max():.4g}"),
    ]


def _constant_rows(found: Fit, law: ParametricLaw) -> list[tuple[object, ...]]:
    level = found.options.level
    ends = [intervals(drawn.laws, level) for drawn in found.bootstraps]
    digits = {"E": ".4f", "A": ".4g", "B": ".4g", "alpha": ".4f", "beta": ".4f", "a": ".4f"}
    rows: list[tuple[object, ...]] = []
    for name, form in digits.items():
        pairs = [getattr(each, name) for each in ends]
        told = [f"{format(low, form)} to {format(high, form)}" for low, high in pairs]
        rows.append((name, format(getattr(law, name), form), *told))
    return rows


def _quality_rows(found: Fit, arguments: Arguments) -> list[tuple[str, str]]:
    errors = abs(found.residual)
    rows = [
        ("objective", f"{found.objective:.7g}, the sum of Huber's losses of log L at delta {found.options.delta:g}"),
        ("starts that reach it", f"{found.starts_at_optimum:.0%} of {found.starts}"),
        ("error of a run", f"{sorted(errors)[len(errors) // 2]:.2%} in the median, {errors.max():.2%} at most"),
        ("noise of a run", f"{found.noise.share:.2%} of the loss, {_noise_source(found)}"),
    ]
    told = [each for each in found.without_size if each.law is not None and each.error is not None]
    if told:
        exponents = [each.law.a for each in told if each.law is not None]
        worst = max(told, key=lambda each: each.error or 0.0)
        rows.append(("a without one size", f"{min(exponents):.3f} to {max(exponents):.3f}, {len(told)} sizes in turn"))
        rows.append(("worst size foretold", f"{worst.left_out}: {worst.error:.3f} {arguments.loss_unit} off"))
    top = found.without_top
    if top is not None and top.error is not None:
        rows.append(("highest compute foretold", f"{top.left_out}, {top.runs} runs: {top.error:.3f} off"))
    return rows


def _noise_source(found: Fit) -> str:
    noise = found.noise
    if noise.source == "seeds":
        return f"by {noise.degrees} repeated seeds"
    return "by what the fit leaves over; no seed was repeated"


def _approach_rows(found: Fit, others: Sequence["Approach"]) -> list[tuple[object, ...]]:
    import numpy as np

    laws = found.bootstraps[0].laws if found.bootstraps and found.law is not None else ()
    spread = f"{float(np.std([each.a for each in laws])):.3f}" if laws else None
    exponent = None if found.law is None else f"{found.law.a:.3f}"
    rows: list[tuple[object, ...]] = [("3: this law", exponent, spread, None)]
    for other in others:
        if other.a is not None and other.standard_error is not None:
            rows.append((other.name, f"{other.a:.3f}", f"{other.standard_error:.3f}", len(other.minima)))
        else:
            rows.append((other.name, None, None, len(other.minima)))
    if found.law is not None and found.least_squares is not None:
        rows.append(("least squares of L", f"{found.least_squares.a:.3f}", None, None))
    return rows


def _print_outliers(found: Fit, console: Console) -> None:
    if not found.outliers:
        return
    rows = [
        (
            each.line,
            units.format_count(each.N),
            units.format_count(each.D),
            f"{each.loss:.4f}",
            f"{each.predicted:.4f}",
            f"{each.deviations:+.1f}",
        )
        for each in found.outliers[:_LINES]
    ]
    title = "Outliers, fitted like all others (--drop-highest K leaves the K highest losses out)"
    console.print(table(("line", "N", "D", "loss", "predicted", "deviations"), rows, title=title))
    _print_rest(len(found.outliers), "outliers", console)


def _print_rest(count: int, what: str, console: Console) -> None:
    if count > _LINES:
        console.print(f"... and {count - _LINES} more {what}; --json lists all.")
