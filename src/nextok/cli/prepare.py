"""`nextok prepare SOURCE... --out DIR`: text to token shards and a report, without training."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from nextok import machine, units
from nextok.cli.options import parse
from nextok.cli.watch import Watch
from nextok.corpus import CorpusConfig, PreparedCorpus, prepare
from nextok.errors import CorpusError
from nextok.files import to_json
from nextok.report import fact_table, make_console

ABOUT = "Read text, train or apply a tokenizer, and write token shards that `nextok train` takes as a source."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    sources: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE...")]
    """Files, folders, globs, or a named corpus: python-stdlib, tinyshakespeare."""
    out: Path
    """Folder to write; must not exist, or hold an earlier corpus."""
    tokenizer: str = "bpe:1024"
    """char, byte, bpe:SIZE (trained on this text), gpt2, or the path of a tokenizer.json."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """How the text is read and split."""
    json: bool = False
    """Print the manifest as one JSON object."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="prepare", about=ABOUT)
    if not arguments.sources:
        raise CorpusError("Nothing to prepare was named.", "Name files, folders, or python-stdlib.")
    console = make_console(sys.stderr if arguments.json else None)
    with Watch(console, arguments.out.name) as watch:
        corpus = prepare(
            arguments.sources,
            tokenizer=arguments.tokenizer,
            out=arguments.out,
            config=arguments.corpus,
            cache=machine.cache_folder(),
            on_progress=watch.preparing,
        )
    if arguments.json:
        print(to_json(asdict(corpus.manifest), indent=2))
    else:
        console.print(fact_table(str(arguments.out), _rows(corpus)))
    return 0


def _rows(corpus: PreparedCorpus) -> list[tuple[str, str]]:
    report = corpus.manifest.report
    met = report.counts
    newlines = {"LF": met.lf_newlines, "CR LF": met.crlf_newlines, "CR": met.cr_newlines}
    rows = [
        ("files, documents", f"{met.files:,}, {met.documents:,}"),
        ("text", f"{units.format_bytes(report.bytes)}, {report.characters:,} characters"),
        ("tokens", f"{report.tokens:,}, {report.bytes_per_token:.2f} bytes each"),
        ("training, validation", f"{len(corpus.train):,}, {len(corpus.validation or ''):,} tokens"),
        *_pair_rows(corpus),
        ("vocabulary", f"{corpus.tokenizer.vocab_size:,} ({corpus.tokenizer.kind})"),
        ("line ends", ", ".join(f"{number:,} {kind}" for kind, number in newlines.items() if number) or "none"),
    ]
    odd = {
        "empty documents left out": met.empty_documents,
        "byte-order marks stripped": met.byte_order_marks,
        "NUL characters kept": met.nul_characters,
        "replacement characters": met.replacement_characters,
        **{f"files left out: {reason}": number for reason, number in report.skipped.items()},
    }
    return rows + [(name, f"{number:,}") for name, number in odd.items() if number]


def _pair_rows(corpus: PreparedCorpus) -> list[tuple[str, str]]:
    """Returns how much of a corpus of pairs is learned and scored; nothing for plain text."""
    splits = [split for split in (corpus.train, corpus.validation) if split is not None and split.targets is not None]
    if not splits:
        return []
    learned = ", ".join(f"{split.targets.tokens:,}" for split in splits if split.targets is not None)
    return [("pairs, tokens of completions", f"{corpus.manifest.report.counts.pairs:,}; {learned}")]
