"""`nextok quantize MODEL --precision int4`: a packed form beside the model, and what it costs in quality."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nextok import units
from nextok.cli.compiling import announce_compiling
from nextok.cli.options import parse
from nextok.files import to_json
from nextok.quantization import QuantizationReport, quantize
from nextok.report import WorkProgress, fact_table, make_console

ABOUT = "Pack a model in fewer bits beside its weights, where generate finds it, and measure what that costs."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run directory, a directory that transformers reads, or a GGUF file."""
    precision: Literal["bf16", "int8", "int4"]
    """bf16 rounds each weight; int8 keeps a scale for each row, int4 one for each 32 weights (the head stays int8)."""
    text: str | None = None
    """Text to measure on, which the model was not trained on; without it, the run's own validation split."""
    limit_tokens: int = 16_384
    """Measure on so many tokens at most."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="quantize", about=ABOUT)
    announce_compiling()
    console = make_console(sys.stderr if arguments.json else None)
    with WorkProgress(console, "Measuring", arguments.limit_tokens, unit="tokens") as progress:
        report = quantize(
            arguments.model,
            arguments.precision,
            text=None if arguments.text is None else Path(arguments.text),
            limit_tokens=arguments.limit_tokens,
            on_tokens=progress.advance,
        )
    if arguments.json:
        print(to_json(asdict(report) | {"perplexity_change": report.perplexity_change}, indent=2))
    else:
        console.print(fact_table(f"{report.model} in {report.precision}", _facts(report)))
    return 0


def _facts(report: QuantizationReport) -> list[tuple[str, str]]:
    bits, tokens = report.bytes / report.bytes_fp32 * 32, f"{report.tokens:,} tokens"
    size, whole = units.format_bytes(report.bytes), units.format_bytes(report.bytes_fp32)
    return [
        ("file", report.path),
        ("size", f"{size}, {bits:.1f} bits a weight (fp32: {whole})"),
        ("perplexity", f"{report.perplexity:.4f} on {tokens} (fp32: {report.perplexity_fp32:.4f})"),
        ("change", f"{report.perplexity_change:+.2%}"),
        ("divergence", f"{report.kl_nats:.5f} nats a token"),
        ("same choice", f"{report.same_choice:.2%} of tokens"),
    ]
