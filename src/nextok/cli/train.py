"""`nextok train SOURCE... --out DIR`: text to a trained model in a run directory."""

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

import tyro

from nextok import machine
from nextok.checkpoint import RunDirectory, read_metrics, saved_steps
from nextok.cli.options import parse, read_early
from nextok.cli.watch import Watch
from nextok.errors import InputError
from nextok.files import to_json
from nextok.report import make_console
from nextok.train import ALONE, Processes, RunOptions, RunResult, joined, resume, run, run_options, saved_options

ABOUT = "Train on files, folders, globs or a named corpus (python-stdlib, tinyshakespeare)."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments(RunOptions):
    """The options of a run, with the sources first and without a flag."""

    sources: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE...")] = ()
    """Files, folders, globs, a named corpus (python-stdlib, tinyshakespeare), or a prepared corpus folder."""


def main(argv: Sequence[str]) -> int:
    """Runs the command, as one of several processes where torchrun has started it, and returns its exit code."""
    with joined(os.environ) as processes:
        code = _main(argv, processes)
    if processes.world > 1:  # all is written; torchrun ends those that leave after one with a code other than 0
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return code


def _main(argv: Sequence[str], processes: Processes) -> int:
    as_json = "--json" in argv
    early = read_early(RunOptions, [argument for argument in argv if argument != "--json"])
    if early.resume and early.out is None:
        raise InputError("--resume needs --out DIR, the run to go on with.", "Add --out runs/NAME.")
    resumed = early.out if early.resume else None
    default = run_options(early.values) if resumed is None else saved_options(resumed, early.values)
    defaults = Arguments(**{field.name: getattr(default, field.name) for field in fields(RunOptions)})
    options = parse(Arguments, early.rest, verb="train", about=ABOUT, default=defaults)
    command = shlex.join(["nextok", "train", *argv])
    result = train(options, command=command, resumed=early.resume, quiet=as_json, processes=processes)
    if as_json and processes.leads:
        print(to_json(asdict(result), indent=2))
    return exit_code(result)


def train(
    options: RunOptions,
    *,
    command: str,
    resumed: bool = False,
    quiet: bool = False,
    processes: Processes = ALONE,
) -> RunResult:
    """Trains while the leading process shows what happens; quiet keeps standard output for the result."""
    cache = machine.cache_folder()
    if not processes.leads:
        if resumed:
            return resume(options, processes=processes)
        return run(options, cache=cache, processes=processes)
    console = make_console(sys.stderr if quiet else None)  # with --json, standard output is for the object alone
    past = _past(RunDirectory(options.out)) if resumed else ()
    with Watch(console, options.out.name, past) as watch:
        if resumed:
            result = resume(options, hooks=[watch], processes=processes)
        else:
            result = run(
                options,
                cache=cache,
                command=command,
                hooks=[watch],
                on_prepare=watch.preparing,
                processes=processes,
            )
    watch.summary(result)
    return result


def exit_code(result: RunResult) -> int:
    """Returns 0, or the code of the signal that stopped the run: 130 for Ctrl-C, 143 for SIGTERM."""
    return {"SIGINT": 130, "SIGTERM": 143}.get((result.stopped_by or "").split(" ")[0], 0)


def _past(run: RunDirectory) -> list[dict[str, Any]]:
    """Returns the metrics up to the last checkpoint: what came after it is done again."""
    last = max(saved_steps(run), default=0)
    return [row for row in read_metrics(run.metrics) if row["step"] <= last]
