"""`nextok generate MODEL --prompt TEXT`: continue a prompt, and see how each token is chosen."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import tyro

from nextok.cli.explain import show
from nextok.cli.options import parse
from nextok.decode import SamplingConfig
from nextok.errors import InputError, PromptError
from nextok.files import to_json
from nextok.loaded import LoadedModel, load
from nextok.report import make_console

ABOUT = "Continue a prompt with a trained model: a run directory, or a directory that transformers reads."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional]
    """A run directory, or a directory that transformers reads."""
    prompt: str | None = None
    """Text to continue; - reads it from standard input. Empty starts from end of text where there is one."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """How tokens are chosen."""
    stream: bool = False
    """Print the text as it comes."""
    explain: bool = False
    """Show the loop step by step: context, candidates, what each filter removed, the choice."""
    interactive: bool = False
    """Ask for one prompt after another until the input ends."""
    json: bool = False
    """Print one JSON object: prompt, ids, texts, log-probabilities, reasons."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="generate", about=ABOUT)
    if arguments.prompt is None and not arguments.interactive:
        raise PromptError("There is nothing to continue.", "Give --prompt TEXT, --prompt - or --interactive.")
    loaded = load(arguments.model)
    if arguments.prompt is not None:
        _answer(loaded, sys.stdin.read() if arguments.prompt == "-" else arguments.prompt, arguments)
    if arguments.interactive:
        _converse(loaded, arguments)
    return 0


def _answer(loaded: LoadedModel, prompt: str, arguments: Arguments) -> None:
    sampling = asdict(arguments.sampling)
    if arguments.json:
        print(to_json(_as_object(loaded, prompt, sampling), indent=2))
    elif arguments.explain:
        show(loaded, prompt, sampling, make_console())
    elif arguments.stream:
        _stream(loaded, prompt, sampling)
    else:
        choices = loaded.generate_all([prompt], **sampling)[0]
        for number, generation in enumerate(choices, start=1):
            if len(choices) > 1:
                print(f"--- {number} of {len(choices)}")
            print(prompt + generation.text)


def _stream(loaded: LoadedModel, prompt: str, sampling: dict[str, Any]) -> None:
    for choice in range(sampling["n"]):
        print(prompt, end="", flush=True)
        for event in loaded.stream(prompt, choice=choice, **sampling):
            print(event.text, end="", flush=True)
        print()


def _as_object(loaded: LoadedModel, prompt: str, sampling: dict[str, Any]) -> dict[str, Any]:
    choices = loaded.generate_all([prompt], **sampling)[0]
    return {
        "prompt": prompt,
        "prompt_ids": choices[0].prompt_ids,
        "sampling": sampling,
        "choices": [
            {name: value for name, value in asdict(choice).items() if name not in ("prompt_ids", "top_logprobs")}
            for choice in choices
        ],
    }


def _converse(loaded: LoadedModel, arguments: Arguments) -> None:
    """Answers prompts until the end of the input; one that cannot be served gets the reason."""
    print("Each line is a prompt of its own; end with Ctrl-D.", file=sys.stderr)
    while True:
        try:
            prompt = input("> ")
        except EOFError:
            print()
            return
        try:
            _answer(loaded, prompt, arguments)
        except InputError as error:
            print(error, file=sys.stderr)
