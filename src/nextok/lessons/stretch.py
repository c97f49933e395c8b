"""Lesson A's stretch task: six layers of width 256, three examples in front of a prompt, the loop walked step by step.

`stretch-train` really trains it, for minutes; the others run at once. `show-it-off` is of the same slide.
"""

import string
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.decode import Event, SamplingConfig, stream
from nextok.lessons import sentences
from nextok.lessons.chinchilla import compute_optimal
from nextok.lessons.in_context import weights_hash
from nextok.lessons.threads import threads
from nextok.lessons.tinygpt import PROMPT, greedy, tiny_config, tiny_gpt
from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.loaded import LoadedModel, load
from nextok.model import GPT, TorchDecoder, build
from nextok.spec import count, preset_config
from nextok.spec.shapes import block_shapes
from nextok.tokenizer import Tokenizer, char_tokenizer
from nextok.train import Event as TrainEvent
from nextok.train import Message, RunOptions, run, run_options

_SHAKESPEARE_CHARACTERS = 1_115_394  # tiny shakespeare; 65 different ones
_CHARACTERS = "\n !$&',-.3:;?" + string.ascii_letters
_OPPOSITES = (
    ("hot", "cold"),
    ("up", "down"),
    ("big", "small"),
    ("left", "right"),
    ("first", "last"),
    ("true", "false"),
    ("open", "close"),
    ("start", "stop"),
)

TRAINED_CORRECTIONS = (
    "Printed: few-shot on the trained stretch model. Right: it shows no effect on such a corpus; the model is small, "
    "and its data hold no examples to learn from.",
)
"""Of `stretch-train`, to be had without training."""


def few_shot_prompt(query: int, examples: int = 3) -> str:
    """Returns that many worked examples, none of them the query's, and the query with its answer left open."""
    others = [pair for at, pair in enumerate(_OPPOSITES) if at != query][:examples]
    return "".join(f"{word}: {answer}\n" for word, answer in others) + f"{_OPPOSITES[query][0]}:"


def _shape() -> Worked:
    config = preset_config("stretch")
    tied, untied = count(config).parameters, count(replace(config, tied_head=False)).parameters
    return Worked(
        question="Six layers, d 256, 8 heads, T 256, V 65: how many parameters, and how many characters for each?",
        answer="4,821,248 tied, 4,837,888 untied; Shakespeare's 1.1M characters are 0.23 for each.",
        facts=(
            Fact(
                what="layers, d, heads, T, V",
                expected=(6, 256, 8, 256, 65),
                computed=(config.n_layers, config.d_model, config.n_heads, config.context, config.vocab_size),
            ),
            Fact(what="tied", expected=4_821_248, computed=tied),
            Fact(what="untied", expected=4_837_888, computed=untied),
            Fact(what="D/N", expected=0.23, computed=_SHAKESPEARE_CHARACTERS / tied, tolerance=0.005),
        ),
        why=(
            "12 d^2 + 13 d a block, six times, with 65 d for the tokens, 256 d for the positions and 2 d for the last "
            "norm. Chinchilla's rule asks for 20 tokens a parameter; here each parameter gets a quarter of a "
            "character, so the model can learn the text by heart and will, if it is trained long enough."
        ),
        corrections=(
            "Printed: show few-shot learning with this model on Shakespeare's characters. Right: it shows nothing "
            "there; 4.8M parameters on 1.1M characters over-fit. Train on text in which examples are followed by "
            "their like.",
        ),
    )


def _loop() -> Worked:
    tokenizer = char_tokenizer(_CHARACTERS, end_of_text=False)
    untrained = build(preset_config("stretch"), seed=0)
    before = weights_hash(untrained)
    prompt = few_shot_prompt(2)
    new = _walk(untrained, tokenizer, prompt, steps=5)
    learned = _walk(sentences.small_gpt().model, sentences.tokenizer(), "the red ", steps=6)
    return Worked(
        question=(
            f"The prompt {prompt!r} goes into the untrained stretch model. What are the steps, and how sure is it?"
        ),
        answer="Forward, last position, softmax, choose, append, again; nothing is likelier than a few percent.",
        facts=(
            Fact(what="characters of Shakespeare", expected=65, computed=tokenizer.vocab_size),
            Fact(
                what="context of each step",
                expected=tuple(range(len(prompt), len(prompt) + 5)),
                computed=_context_lengths(new),
            ),
            Fact(what="each choice is the likeliest", expected=True, computed=all(_is_best(event) for event in new)),
            Fact(what="its first guess is what it has just read", expected=":", computed=new[0].text),
            Fact(what="and below 0.1", expected=True, computed=all(_best_probability(event) < 0.1 for event in new)),
            Fact(
                what="a trained model's first guess is surer",
                expected=True,
                computed=_best_probability(learned[0]) > _best_probability(new[0]),
            ),
            Fact(what="weights unchanged by three examples", expected=True, computed=weights_hash(untrained) == before),
        ),
        why=(
            "Each step reads the whole context and uses only the last position's logits. The chosen token is appended "
            "and becomes part of the next step's context; a cache carries keys and values along, which only saves "
            "computing them again. The three examples are context "
            "like any other: the model's weights do not know that they came. Untrained, a model with a tied head "
            "favours the character that it has just read, because the head compares its output with every embedding "
            "and that one is still in it."
        ),
        grids=(
            _walked("Stretch model, untrained", new, tokenizer),
            _walked("Small model, trained on sentences", learned, sentences.tokenizer()),
        ),
    )


def _walk(model: GPT, tokenizer: Tokenizer, prompt: str, steps: int) -> list[Event]:
    greedy = SamplingConfig(max_new_tokens=steps, temperature=0.0)
    return list(stream(TorchDecoder(model), tokenizer, tokenizer.encode(prompt), greedy, explain=True))


def _context_lengths(events: Sequence[Event]) -> tuple[int, ...]:
    return tuple(len(event.explanation.context_ids) for event in events if event.explanation)


def _is_best(event: Event) -> bool:
    return event.explanation is not None and event.explanation.raw[0].id == event.id


def _best_probability(event: Event) -> float:
    return 0.0 if event.explanation is None else event.explanation.raw[0].probability


def _walked(title: str, events: Sequence[Event], tokenizer: Tokenizer) -> Grid:
    """One row a step of the loop: what was read, what could come, what was taken."""
    rows = []
    for step, event in enumerate(events, start=1):
        if event.explanation is None:
            continue
        read = event.explanation.context_ids
        best = ", ".join(f"{tokenizer.token_text(c.id)!r} {c.probability:.3f}" for c in event.explanation.raw[:3])
        ending = repr(tokenizer.decode(read[-8:]))
        rows.append((str(step), str(len(read)), ending, best, repr(tokenizer.token_text(event.id))))
    return Grid(title=title, columns=("step", "context", "ends in", "likeliest", "chosen"), rows=tuple(rows))


def _show_it_off() -> Worked:
    ids = greedy(tiny_gpt(), PROMPT, 5)
    n_star, d_star = compute_optimal(1e21)
    more_n, more_d = compute_optimal(1e23)
    parts = dict.fromkeys(name.split(".")[0] for name in block_shapes(tiny_config()))
    return Worked(
        question="Aloud: why is training parallel, what does GPT leave out of the Transformer, and what to scale?",
        answer=(
            "The mask makes every position's target computable in one pass; there is no encoder and so no "
            "cross-attention, only causal self-attention; N and D grow together, 20 tokens a parameter."
        ),
        facts=(
            Fact(what="targets of 8 tokens in one pass", expected=7, computed=len(ids) - 1),
            Fact(
                what="one pass against seven prefixes: largest difference of the logits",
                expected=0.0,
                computed=_pass_against_prefixes(ids[:-1]),
                tolerance=1e-5,
            ),
            Fact(what="parts of a block", expected="norm1, attn, norm2, mlp", computed=", ".join(parts)),
            Fact(what="tokens a parameter", expected=20.0, computed=d_star / n_star, tolerance=1e-9),
            Fact(
                what="growth of N and D for 100 times the compute",
                expected=(10.0, 10.0),
                computed=(more_n / n_star, more_d / d_star),
                tolerance=1e-9,
            ),
        ),
        why=(
            "A position's logits depend on nothing after it, so one pass over a text is every prefix at once. "
            "Cross-attention reads an encoder's output; without an encoder a block is one attention, one feed-forward "
            "network and their norms. C = 6 N D with D = 20 N lets both grow with the root of C, a rule of text that "
            "is read once; `u-shape` says where it ends."
        ),
    )


def _pass_against_prefixes(ids: tuple[int, ...]) -> float:
    model = tiny_gpt()
    with torch.inference_mode():
        whole_TV = model(torch.tensor([ids]))[0]
        prefixes_TV = torch.stack([model(torch.tensor([ids[: end + 1]]))[0, -1] for end in range(len(ids))])
    return (whole_TV - prefixes_TV).abs().max().item()


def train_and_try(out: Path | None = None, minutes: float = 4.0) -> Worked:
    """Trains the stretch model on Python's standard library, then shows its losses, few-shot answers and the loop.

    Args:
        out: Run directory to write and keep; a temporary one that is removed if not given.
        minutes: For training and its calibration.

    Raises:
        KeyboardInterrupt: SIGINT stopped the training.
        SystemExit: SIGTERM did; the code is 143.
    """
    messages: list[str] = []

    def listen(event: TrainEvent) -> None:
        messages.extend([event.text] if isinstance(event, Message) else [])

    with threads(), _folder(out) as folder:
        result = run(_run_options(folder, minutes), cache=folder, hooks=[listen])
        _pass_on(result.stopped_by)
        records = read_metrics(RunDirectory.open(folder).metrics)
        trained = load(folder)
    losses = [(row["step"], row["train_loss"]) for row in records if row.get("train_loss") is not None]
    before = weights_hash(trained.model)
    right = {examples: _answers_right(trained, examples) for examples in (0, 3)}
    unchanged = weights_hash(trained.model) == before
    assert trained.tokenizer is not None
    prompt = few_shot_prompt(2)
    events = _walk(trained.model, trained.tokenizer, prompt, steps=5)
    start = len(trained.ids(prompt))
    return Worked(
        question=(
            "Minutes of training on Python's source: does the loss fall, and do three examples teach it opposites?"
        ),
        answer=f"The loss falls from {losses[0][1]:.2f} to {losses[-1][1]:.2f}; the examples teach it nothing.",
        facts=(
            Fact(what="the run reached its last step", expected=True, computed=result.step == result.steps),
            Fact(what="loss fell by more than 1 nat", expected=True, computed=losses[0][1] - losses[-1][1] > 1),
            Fact(
                what="more than half right with three examples", expected=False, computed=right[3] > len(_OPPOSITES) / 2
            ),
            Fact(what="weights unchanged by prompting", expected=True, computed=unchanged),
            Fact(
                what="context of each step", expected=tuple(range(start, start + 5)), computed=_context_lengths(events)
            ),
        ),
        why=(
            f"{right[0]} of {len(_OPPOSITES)} answers are right without examples and {right[3]} with three. The corpus "
            "holds nothing like such lists, and minutes of training reach word fragments and indentation. Few-shot "
            "answers come from data in which a pattern in the context says what follows, and from two layers or more "
            "to use it."
        ),
        grids=(
            Grid(
                title=f"Training, {result.tokens:,} tokens in {result.seconds:.0f} s",
                columns=("step", "loss"),
                rows=tuple((str(step), f"{loss:.3f}") for step, loss in losses[:: max(1, len(losses) // 8)]),
            ),
            Grid(title="The run's messages", columns=("message",), rows=tuple((text,) for text in messages)),
            _answers_grid(trained),
            _walked(f"The loop after {prompt!r}", events, trained.tokenizer),
        ),
        corrections=TRAINED_CORRECTIONS,
    )


def _pass_on(stopped_by: str | None) -> None:
    """Ends what was to follow a training that a signal stopped, as the signal would have without it."""
    name = (stopped_by or "").split(" ")[0]
    if name == "SIGINT":
        raise KeyboardInterrupt
    if name == "SIGTERM":
        raise SystemExit(143)


def _run_options(folder: Path, minutes: float) -> RunOptions:
    return run_options(
        {
            "sources": ("python-stdlib",),
            "out": str(folder),
            "preset": "stretch",
            "recipe": "classic",
            "tokenizer": "bpe:1024",
            "minutes": minutes,
            "corpus": {"val_fraction": 0.005},  # 60 kB: enough to score on, seconds to score
            "train": {"batch_size": 8, "warmup_steps": 20, "sample_tokens": 0, "log_every_steps": 5},
        }
    )


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "run")


def _answer(trained: LoadedModel, query: int, examples: int) -> str:
    made = trained.generate(few_shot_prompt(query, examples), max_new_tokens=8, temperature=0.0)
    return made.text.strip().split("\n")[0]


def _answers_right(trained: LoadedModel, examples: int) -> int:
    return sum(_answer(trained, at, examples) == answer for at, (_, answer) in enumerate(_OPPOSITES))


def _answers_grid(trained: LoadedModel) -> Grid:
    return Grid(
        title="Greedy answers",
        columns=("word", "right", "no examples", "three examples"),
        rows=tuple(
            (word, answer, *(repr(_answer(trained, at, examples)) for examples in (0, 3)))
            for at, (word, answer) in enumerate(_OPPOSITES)
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="show-it-off", lesson="A, slide 57", title="three answers to say aloud", run=_show_it_off),
    Example(name="stretch", lesson="A, slide 57", title="the stretch model, counted", run=_shape),
    Example(name="stretch-loop", lesson="A, slides 31-32, 57", title="three examples, and the loop walked", run=_loop),
    Example(name="stretch-train", lesson="A, slide 57", title="trained for minutes", run=train_and_try, slow=True),
)
