"""`nextok quickstart`: the main job on an embedded default, from nothing to a model that writes Python."""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nextok.cli.options import parse
from nextok.cli.train import exit_code, train
from nextok.files import to_json
from nextok.loaded import load
from nextok.report import make_console
from nextok.spec import PRESETS
from nextok.train import RunOptions, run_options

ABOUT = "Train a small GPT on Python's own standard library, draw its curves, and let it write."
_PROMPT = "def main("


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    minutes: float = 2.0
    """Time for training and its calibration."""
    out: Path | None = None
    """Run directory to write; none: runs/quickstart, or with a number behind it where that exists."""
    seed: int = 1337
    """Of everything that is drawn."""
    json: bool = False
    """Print the result as one JSON object; progress goes to standard error."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="quickstart", about=ABOUT)
    result = train(
        quickstart_options(arguments), command=shlex.join(["nextok", "quickstart", *argv]), quiet=arguments.json
    )
    if arguments.json:
        print(to_json(asdict(result), indent=2))
    if arguments.json or result.stopped_by:
        return exit_code(result)
    console = make_console()
    continued = load(result.path).generate(_PROMPT, max_new_tokens=120, temperature=0.7, overflow="slide")
    console.print(f"\nIt continues {_PROMPT!r}:\n")
    console.print(_PROMPT + continued.text)
    console.print(f"\nLoss curves: {result.path / 'plots' / 'loss.png'}\n\nTry next:")
    for command in [*_next_commands(result.path), "nextok train YOUR_TEXT.txt --minutes 5 --out runs/mine"]:
        console.print(f"  {command}", soft_wrap=True)
    return 0


def quickstart_options(arguments: Arguments) -> RunOptions:
    """Returns the run that the command stands for: a vocabulary and a model that two minutes can fill."""
    return run_options(
        {
            "sources": ("python-stdlib",),
            "out": str(arguments.out or _free_folder(Path("runs/quickstart"))),
            "preset": "quick",
            "recipe": "modern",
            "tokenizer": f"bpe:{PRESETS['quick'].vocab_size}",
            "minutes": arguments.minutes,
            # 1 % of the library is 130 kB of text: enough to score on, and quick to score
            "corpus": {"val_fraction": 0.01},
            "train": {"seed": arguments.seed, "batch_size": 16},
        }
    )


def _free_folder(path: Path) -> Path:
    """Returns the path, or the first of path-2, path-3, ... that does not exist."""
    return next(
        folder
        for number in itertools.count(1)
        if not (folder := path if number == 1 else path.with_name(f"{path.name}-{number}")).exists()
    )


def _next_commands(path: Path) -> list[str]:
    """Returns what to try with a trained run."""
    folder = shlex.quote(str(path))
    return [
        f"nextok generate {folder} --prompt 'def main('",
        f"nextok generate {folder} --prompt 'def main(' --explain --max-new-tokens 5",
        f"nextok info {folder}",
    ]
