"""`nextok export MODEL --to hf|gguf --out PATH`: a model for other programs, and whether they run it."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from nextok.cli.conversion import ConversionWatch, show_conversion
from nextok.cli.options import parse
from nextok.conversion import export_model
from nextok.conversion.convert import Format, Precision
from nextok.conversion.engines import EngineReport, check_engine, find_engine
from nextok.files import to_json
from nextok.report import make_console

ABOUT = "Write a model as a directory of transformers or as a GGUF file, and check it in the programs that read those."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run directory, a directory of transformers, or a GGUF file."""
    to: Format
    """hf, a directory of transformers; or gguf, one file for llama.cpp and what is built on it."""
    out: Path
    """Folder (hf) or file (gguf) to write; must not exist, though an empty folder may."""
    precision: Precision = "f32"
    """Of the matrices in a GGUF file."""
    check: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENGINE")] = ()
    """transformers, llama.cpp, ctranslate2 or vllm: what it does with the model; tried where it is installed."""
    json: bool = False
    """Print the result as one JSON object."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code: 1 if an engine cannot use what was written."""
    arguments = parse(Arguments, argv, verb="export", about=ABOUT)
    for name in arguments.check:
        find_engine(name)  # before the long part
    console = make_console(sys.stderr if arguments.json else None)
    with ConversionWatch(console) as watch:
        conversion = export_model(
            arguments.model, arguments.out, to=arguments.to, precision=arguments.precision, on_progress=watch
        )
    if not arguments.json:
        show_conversion(conversion, console)
    reports = []
    for name in arguments.check:
        reports.append(check_engine(name, arguments.out, precision=arguments.precision))
        if not arguments.json:
            _show(reports[-1], console)
    if arguments.json:
        print(to_json({**asdict(conversion), "checks": [_as_object(report) for report in reports]}, indent=2))
    return int(any(report.failed for report in reports))


def _show(report: EngineReport, console: Console) -> None:
    console.print(f"\n{report.engine}: {report.verdict}", soft_wrap=True)
    for finding in report.findings:
        console.print(f"  {finding.sentence}", soft_wrap=True)
    trial = report.trial
    if trial is not None and trial.problem:
        console.print(f"  Tried with {report.version}, and it failed. {trial.problem}", soft_wrap=True)
    elif trial is not None:
        console.print(
            f"  Tried with {report.version}: {trial.equal_tokens} of {trial.tokens} greedy tokens are nextok's, "
            f"log-probabilities within {trial.max_logprob_difference:.1g} nats.",
            soft_wrap=True,
        )
    elif report.version is None:
        console.print(f"  Not tried: it is not installed here ({report.install}).", soft_wrap=True)


def _as_object(report: EngineReport) -> dict[str, Any]:
    return {**asdict(report), "verdict": report.verdict, "failed": report.failed}
