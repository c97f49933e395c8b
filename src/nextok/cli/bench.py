"""`nextok bench [MODEL]`: this machine's limits, and this model's speed against them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console

from nextok import units
from nextok.benchmark import Benchmark, Decoding, count_figures, find_subject, run_benchmark
from nextok.cli.options import parse
from nextok.engine import PRECISIONS, Precision
from nextok.errors import ConfigError
from nextok.files import to_json
from nextok.report import WorkProgress, fact_table, make_console, table

ABOUT = "Measure how fast this machine reads memory and multiplies, and how near a model on it comes to that."
_SUBSET = "fp32|bf16|int8|int4"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = "gpt2"
    """A preset (nano, gpt2, ...), with random weights; or a run directory, a directory of transformers, a GGUF file."""
    precision: Annotated[tuple[Precision, ...], tyro.conf.arg(metavar=_SUBSET)] = ()
    """Measure this precision, and others by repeating the flag; without it, all four."""
    seconds: float = 2.0
    """Time for each figure. There are six or so a precision."""
    threads: int = 0
    """Cores to use; 0 is all that this process may use."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ConfigError(f"seconds = {self.seconds} is not a time above 0.")
        if self.threads < 0:
            raise ConfigError(f"threads = {self.threads} is not a whole number of at least 0.")


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="bench", about=ABOUT)
    subject = find_subject(arguments.model)
    precisions = arguments.precision or PRECISIONS
    console = make_console(sys.stderr if arguments.json else None)
    with WorkProgress(console, "Measuring", count_figures(subject, precisions), unit="figures") as progress:
        benchmark = run_benchmark(
            subject,
            precisions=precisions,
            seconds=arguments.seconds,
            threads=arguments.threads or None,
            on_figure=lambda _: progress.advance(1),
        )
    if arguments.json:
        print(to_json(benchmark.to_mapping(), indent=2))
    else:
        _print(benchmark, console)
    return 0


def _print(benchmark: Benchmark, console: Console) -> None:
    console.print(fact_table("this machine", _machine_rows(benchmark)))
    weights = "random weights" if benchmark.random_weights else "its own weights"
    title = f"{benchmark.model}: {units.format_count(benchmark.parameters)} parameters, {weights}; tokens a second"
    console.print(table(_columns(benchmark), _rows(benchmark), title=title))
    (_, near), *_ = _cases(benchmark)
    console.print(
        f"at {near}: one stream, after so many tokens. x 8: eight streams together. prefill: a prompt of "
        f"{benchmark.speeds[0].prefill_tokens:,} tokens.\n"
        "of read: the weights that a token reads, times tokens a second, as a share of the read speed.\n"
        "of peak: the operations of prefill, as a share of products in fp32 (for fp32) or bf16 (for the others)."
    )
    if benchmark.busy:
        console.print(f"The machine was busy (load {benchmark.load_before:.1f} before): figures may be too low.")


def _machine_rows(benchmark: Benchmark) -> list[tuple[str, str]]:
    limits = benchmark.limits
    products = [f"{flops / 1e9:,.0f} GFLOP/s {kind}" for kind, flops in limits.matmul_flops_per_s.items()]
    return [
        ("processor", f"{benchmark.machine['processor']}, {benchmark.threads} of {benchmark.machine['cores']} cores"),
        ("kernels", benchmark.kernels),
        ("reading", f"{limits.read_bytes_per_s / 1e9:.1f} GB/s ({limits.read_way})"),
        ("products", ", ".join(products)),
        ("date", benchmark.date),
    ]


def _cases(benchmark: Benchmark) -> list[tuple[int, int]]:
    """Returns (streams, position) of the columns: one stream near the start first."""
    found = {(each.streams, each.position): None for speed in benchmark.speeds for each in speed.decoding}
    return list(found)


def _columns(benchmark: Benchmark) -> list[str]:
    (_, near), *others = _cases(benchmark)
    names = [f"at {position:,}" if streams == 1 else f"x {streams}" for streams, position in others]
    return ["", "weights", f"at {near}", "of read", *names, "prefill", "of peak"]  # short: 80 characters hold a row


def _rows(benchmark: Benchmark) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for number, speed in enumerate(benchmark.speeds):
        near, *others = (_figure(speed.at(streams=n, position=position)) for n, position in _cases(benchmark))
        size, prefill = units.format_bytes(speed.streamed_bytes), f"{speed.prefill_tokens_per_s:,.0f}"
        shares = [_percent(share) for share in (benchmark.read_share(number), benchmark.prefill_share(number))]
        rows.append((speed.precision, size, near, shares[0], *others, prefill, shares[1]))
    return rows


def _figure(decoding: Decoding | None) -> str | None:
    return None if decoding is None else f"{decoding.tokens_per_s:,.0f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
