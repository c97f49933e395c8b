"""`nextok import PATH --out DIR`: a model of another program as a directory that every command takes."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from nextok import machine
from nextok.cli.conversion import ConversionWatch, show_conversion
from nextok.cli.options import parse
from nextok.conversion import import_model
from nextok.errors import TokenizerError
from nextok.files import to_json
from nextok.interop import Gelu, Hints
from nextok.report import make_console
from nextok.tokenizer import Tokenizer, build_tokenizer, parse_choice

ABOUT = "Read a directory of transformers, a GGUF file, or a checkpoint of nanoGPT or minGPT; write a model folder."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]
    """What to read; its content tells which format it is. No code in it is run."""
    out: Path
    """Folder to write; must not exist, or be empty."""
    tokenizer: str | None = None
    """byte, gpt2, or the path of a tokenizer.json, for a model that comes without one."""
    n_heads: int | None = None
    """Attention heads, where a checkpoint does not say."""
    mlp: Gelu | None = None
    """Activation of a nanoGPT checkpoint: gelu since June 2023, gelu_tanh before."""
    meta: Path | None = None
    """nanoGPT's meta.pkl with the characters, where it is not beside the checkpoint."""
    json: bool = False
    """Print the result as one JSON object."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="import", about=ABOUT)
    console = make_console(sys.stderr if arguments.json else None)
    with ConversionWatch(console) as watch:
        conversion = import_model(
            arguments.path,
            arguments.out,
            tokenizer=_tokenizer(arguments.tokenizer),
            hints=Hints(n_heads=arguments.n_heads, mlp=arguments.mlp, meta=arguments.meta),
            on_progress=watch,
        )
    if arguments.json:
        print(to_json(asdict(conversion), indent=2))
    else:
        show_conversion(conversion, console)
    return 0


def _tokenizer(name: str | None) -> Tokenizer | None:
    if name is None:
        return None
    choice = parse_choice(name)
    if choice.kind in ("char", "bpe"):
        raise TokenizerError(
            f"--tokenizer {name} is made from a text, and there is none here.",
            "Give byte, gpt2, or the tokenizer.json that the model was trained with.",
        )
    return build_tokenizer(choice, tuple, end_of_text=True, cache=machine.cache_folder())
