"""`nextok VERB ...`: finds the verb, and turns errors into one sentence and an exit code.

Exit codes: 0 done, 1 failed, 2 bad input, 130 and 143 stopped by Ctrl-C and SIGTERM. `--debug` shows the traceback.
"""

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, TextIO

import nextok
from nextok.config import unknown_name
from nextok.errors import NextokError

VERBS = {
    "quickstart": "train on Python's own standard library for two minutes, and see what comes out",
    "train": "text to a trained model in a run directory",
    "prepare": "text to token shards and a report, without training",
    "generate": "continue a prompt",
    "compare": "runs beside each other, and whether the difference is more than noise",
    "quantize": "pack a model in fewer bits, and say what that costs",
    "info": "parameters, FLOPs and memory of a model, exactly",
    "import": "a model of another program as a folder that every command takes",
    "export": "a model as a transformers directory or a GGUF file, checked in the programs that read it",
    "bench": "measure this machine's limits, and a model's speed against them",
    "plan": "what to train for a compute, time, money, data or size budget, by every scaling rule",
    "fit": "the scaling law that your runs follow, and how sure it is",
    "predict": "a run's loss before it starts, and the score when it is over",
    "lesson": "run a lesson's worked example: expected beside computed, and why",
}

_MODULES = {"import": "import_model"}
"""Verbs whose module cannot have their name, a word of Python's own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    _set_streams()
    # Threads of a parallel region wait for each other by spinning. On a busy machine torch's default spins away whole
    # time slices: a step took 581 ms beside six other processes, and 58 ms with a short spin, which costs nothing on a
    # quiet one (docs/experiments.md). Decoding has shorter regions and gains a tenth from waiting a little longer.
    # Must be set before torch or Numba start their threads.
    decodes = any(verb in arguments[:1] for verb in ("generate", "bench", "quantize"))
    os.environ.setdefault("GOMP_SPINCOUNT", "50000" if decodes else "2000")
    signal.signal(signal.SIGTERM, _terminated)  # outside the training loop there is nothing to save
    try:
        return _dispatch(arguments)
    except NextokError as error:
        if debug:
            raise
        print(f"nextok: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        if debug:
            raise
        print("\nnextok: interrupted.", file=sys.stderr)  # below the text that was coming
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains while closing it
        return 0


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("--version", "-V"):
        print(f"nextok {nextok.__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        hint = unknown_name(verb, VERBS).hint
        print(f"nextok: There is no command {verb!r}. {hint.replace('Known names', 'Commands')}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"nextok.cli.{_MODULES.get(verb, verb)}")
    return int(module.main(rest))


def _help() -> str:
    width = max(len(verb) for verb in VERBS)
    rows = [f"  {verb:<{width}}  {about}" for verb, about in VERBS.items()]
    return "\n".join(
        [
            f"nextok {nextok.__version__}: train decoder-only GPTs, look inside, and let them write.",
            "",
            "usage: nextok COMMAND [options]     nextok COMMAND --help",
            "",
            *rows,
            "",
            "every command: --debug shows where an error came from. Start with: nextok quickstart",
        ]
    )


def _set_streams() -> None:
    """Makes every locale read UTF-8, and lets no character that cannot be read or shown end the command."""
    # Bytes that are not UTF-8 become what they become in arguments; the tokenizer puts U+FFFD for them.
    _reconfigure(sys.stdin, encoding="utf-8", errors="surrogateescape")
    _reconfigure(sys.stdout, errors="replace")
    _reconfigure(sys.stderr, errors="replace")


def _reconfigure(stream: TextIO, **settings: Any) -> None:
    if isinstance(stream, io.TextIOWrapper):  # none at all under pythonw, something else in a notebook
        stream.reconfigure(**settings)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
