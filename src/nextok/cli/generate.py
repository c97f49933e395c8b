"""`nextok generate MODEL --prompt TEXT`: continue a prompt, and see how each token is chosen."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from nextok.backends import Backend
from nextok.cli.compiling import announce_compiling
from nextok.cli.explain import show
from nextok.cli.options import parse
from nextok.decode import Generation, SamplingConfig
from nextok.engine import Precision
from nextok.errors import ConfigError, InputError, PromptError
from nextok.files import to_json
from nextok.loaded import Guesser, LoadedModel, load
from nextok.report import make_console, plain_text
from nextok.tokenizer import Unknown

ABOUT = "Continue a prompt with a trained model: a run directory, a directory that transformers reads, or a GGUF file."

# Options that a beam search shares, and the first two, which it ignores: it draws nothing.
_SEARCHED = ("temperature", "seed", "max_new_tokens", "min_new_tokens", "ignore_end", "banned_ids", "n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run directory, a directory that transformers reads, or a GGUF file."""
    prompt: str | None = None
    """Text to continue; - reads it from standard input. Empty starts from end of text where there is one."""
    precision: Precision = "fp32"
    """How weights are kept: int8 and int4 take about a quarter and a sixth of the memory."""
    backend: Backend = "auto"
    """What computes: torch, the Numba engine, or the faster of them, measured once for each size of model."""
    unknown: Unknown = "error"
    """A character that the model's vocabulary does not have: refuse the prompt, drop it, or replace it by a mark."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """How tokens are chosen."""
    beams: int = 0
    """Search for the likeliest whole text with this many beams instead of drawing; --n gives the best of them."""
    speculate: Annotated[str, tyro.conf.arg(metavar="ngram|MODEL")] = ""
    """Read guesses of several tokens at once, from the text itself or a smaller model; the text stays the same."""
    stream: bool = False
    """Print the text as it comes."""
    explain: bool = False
    """Show the loop step by step: context, candidates, what each filter removed, the choice."""
    interactive: bool = False
    """Ask for one prompt after another until the input ends."""
    json: bool = False
    """Print one JSON object: prompt, ids, texts, log-probabilities, reasons."""

    def __post_init__(self) -> None:
        forms = [f"--{name}" for name in ("stream", "explain", "json") if getattr(self, name)]
        if len(forms) > 1:
            raise ConfigError(f"{' and '.join(forms)} print in different ways.", "Choose one of them.")
        if self.explain and self.sampling.n > 1:
            raise ConfigError(f"--explain shows one continuation, and --n {self.sampling.n} asks for more.")
        if self.beams < 0:
            raise ConfigError(f"beams = {self.beams} is not a whole number of at least 0.")
        if self.beams:
            self._check_search()

    def _check_search(self) -> None:
        """Refuses what has no meaning in a search, which draws nothing and knows a text when it is whole."""
        idle = [f"--{name}" for name in ("stream", "explain", "speculate") if getattr(self, name)]
        plain = SamplingConfig()
        for name in (each.name for each in fields(SamplingConfig) if each.name not in _SEARCHED):
            if getattr(self.sampling, name) != getattr(plain, name):
                idle.append(f"--{name.replace('_', '-')}")
        if idle:
            raise ConfigError(f"--beams does not go with {', '.join(idle)}.", "Leave one of them out.")


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="generate", about=ABOUT)
    if arguments.prompt is None and not arguments.interactive:
        raise PromptError("There is nothing to continue.", "Give --prompt TEXT, --prompt - or --interactive.")
    schema = _schema_text(arguments.sampling.json_schema)
    arguments = replace(arguments, sampling=replace(arguments.sampling, json_schema=schema))
    loaded = load(arguments.model, backend=arguments.backend, precision=arguments.precision)
    guesser = _guesser(arguments)
    announce_compiling(arguments.backend)
    if arguments.prompt is not None:
        _answer(loaded, guesser, sys.stdin.read() if arguments.prompt == "-" else arguments.prompt, arguments)
    if arguments.interactive:
        _converse(loaded, guesser, arguments)
    return 0


def _guesser(arguments: Arguments) -> "Guesser | None":
    if arguments.speculate in ("", "ngram"):
        return "ngram" if arguments.speculate else None
    return load(arguments.speculate, backend=arguments.backend, precision=arguments.precision)


def _answer(loaded: LoadedModel, guesser: "Guesser | None", prompt: str, arguments: Arguments) -> None:
    if arguments.beams:
        _search(loaded, prompt, arguments)
        return
    options = asdict(arguments.sampling) | {"unknown": arguments.unknown, "speculate": guesser}
    if arguments.explain:
        show(loaded, prompt, options, make_console())
    elif arguments.stream:
        _stream(loaded, prompt, options)
    elif arguments.json:
        choices = loaded.generate_all([prompt], **options)[0]
        print(to_json(_as_object(prompt, choices, arguments.sampling), indent=2))
    else:
        choices = loaded.generate_all([prompt], **options)[0]
        _print_all(prompt, choices)
        if any(_is_full(choice, arguments.sampling.max_new_tokens) for choice in choices):
            note = f"(stopped at the context of {loaded.config.context} tokens; --overflow slide goes on)"
            print(note, file=sys.stderr)


def _search(loaded: LoadedModel, prompt: str, arguments: Arguments) -> None:
    sampling = arguments.sampling
    search = {
        name: getattr(sampling, name) for name in ("max_new_tokens", "min_new_tokens", "ignore_end", "banned_ids")
    }
    search |= {"n_beams": arguments.beams, "n_best": sampling.n, "unknown": arguments.unknown}
    beams = loaded.beam_search(prompt, **search)
    choices = [beam.generation for beam in beams]
    if arguments.json:
        report = _as_object(prompt, choices, sampling)
        for choice, beam in zip(report["choices"], beams, strict=True):
            choice["score"] = beam.score
        print(to_json(report, indent=2))
    else:
        _print_all(prompt, choices)


def _schema_text(given: str) -> str:
    """Returns the JSON schema: what was given, or what stands in the file of that name."""
    if not given or given.lstrip().startswith("{"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"Cannot read the JSON schema {given}: {reason}.", "Give a file, or the schema.") from error


def _is_full(choice: Generation, wanted: int) -> bool:
    """Whether a continuation ended because the context was full, before all tokens wanted were there."""
    return choice.finish_reason == "length" and len(choice.ids) < wanted


def _print_all(prompt: str, choices: Sequence[Generation]) -> None:
    for number, generation in enumerate(choices, start=1):
        if len(choices) > 1:
            print(f"--- {number} of {len(choices)}")
        _say(prompt + generation.text + "\n")


def _say(text: str) -> None:
    """Prints at once; on a terminal without what would steer it, since a model can write any character."""
    print(plain_text(text).plain if sys.stdout.isatty() else text, end="", flush=True)


def _stream(loaded: LoadedModel, prompt: str, options: dict[str, Any]) -> None:
    for choice in range(options["n"]):
        _say(prompt)
        for event in loaded.stream(prompt, choice=choice, **options):
            _say(event.text)
        print()


def _as_object(prompt: str, choices: Sequence[Generation], sampling: SamplingConfig) -> dict[str, Any]:
    left_out = {"prompt_ids"} if sampling.top_logprobs else {"prompt_ids", "top_logprobs"}
    return {
        "prompt": prompt,
        "prompt_ids": choices[0].prompt_ids,
        "sampling": asdict(sampling),
        "choices": [
            {name: value for name, value in asdict(choice).items() if name not in left_out} for choice in choices
        ],
    }


def _converse(loaded: LoadedModel, guesser: "Guesser | None", arguments: Arguments) -> None:
    """Answers prompts until the end of the input; one that cannot be served gets the reason."""
    print("Each line is a prompt of its own; end with Ctrl-D.", file=sys.stderr)
    while True:
        try:
            prompt = input("> ")
        except EOFError:
            print()
            return
        try:
            _answer(loaded, guesser, prompt, arguments)
        except InputError as error:
            print(error, file=sys.stderr)
