"""In-context learning: what three examples in a prompt change and what not, and how abilities come to look sudden."""

import copy
import hashlib

import torch

from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.model import GPT, build, next_token_loss, weight_arrays
from nextok.spec import preset_config

_QUERY = (13,)
_THREE_EXAMPLES = (10, 20, 11, 21, 12, 22)  # x, then the answer x + 10


def weights_hash(model: GPT) -> str:
    """Returns the SHA-256 of all weights with their names, in hexadecimal."""
    digest = hashlib.sha256()
    for name, array in weight_arrays(model).items():
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def _two_truths() -> Worked:
    model = build(preset_config("lesson-a"), seed=42)
    before = weights_hash(model)
    alone_V, with_examples_V = _next(model, _QUERY), _next(model, (*_THREE_EXAMPLES, *_QUERY))
    prompted, tuned = weights_hash(model), weights_hash(_fine_tuned(model))
    moved = float((alone_V - with_examples_V).abs().sum() / 2)
    statements = {
        "Examples in the prompt change what comes next.": (True, moved > 0.01),
        "Fine-tuning on the examples changes the weights.": (True, tuned != before),
        "Few-shot prompting updates the weights.": (False, prompted != before),
    }
    return Worked(
        question=f"Two truths and a lie: {' '.join(statements)} Which is the lie?",
        answer="The third is the lie: reading examples changes the context, and no weight.",
        facts=(
            *(Fact(what=text, expected=true, computed=found) for text, (true, found) in statements.items()),
            Fact(what="a tuned copy leaves the model as it was", expected=True, computed=weights_hash(model) == before),
        ),
        why=(
            "A prompt is an input. Its tokens become keys and values that later positions attend to, and the answer "
            f"depends on them: here {100 * moved:.0f} % of the probability moves. The weights are only read, so their "
            "hash is the same before and after. Training is the one thing that writes them: a single Adam step gives "
            'another hash. Lesson C\'s line "sea -> mer, dog -> chien, cat -> ___" has two examples in the context and '
            "asks for chat, which only a model that has read French can give."
        ),
        grids=(
            Grid(
                title="SHA-256 of the weights",
                columns=("when", "hash"),
                rows=(
                    ("before", before[:16]),
                    ("after reading three examples", prompted[:16]),
                    ("after one step of training on them", tuned[:16]),
                ),
            ),
            Grid(
                title="Matching",
                columns=("term", "what it is"),
                rows=(
                    ("few-shot", "examples in the context"),
                    ("zero-shot reasoning", "a trigger phrase"),
                    ("in-context learning", "adaptation by reading"),
                ),
            ),
        ),
        corrections=(
            'Printed: "Let\'s think step by step" as a skill that the model has. Right: the phrase is more context; it '
            "helps some large models and has no effect in toy models.",
        ),
    )


def _next(model: GPT, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.softmax(model(torch.tensor([ids]))[0, -1], dim=-1)


def _fine_tuned(model: GPT) -> GPT:
    """Returns a copy after one Adam step on the examples."""
    tuned = copy.deepcopy(model)
    ids_1T = torch.tensor([_THREE_EXAMPLES])
    next_token_loss(tuned(ids_1T[:, :-1]), ids_1T[:, 1:]).backward()
    torch.optim.Adam(tuned.parameters(), lr=1e-3).step()
    return tuned


def _sudden_metric() -> Worked:
    accuracies = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    exact = tuple(accuracy**10 for accuracy in accuracies)
    steps = tuple(after - before for before, after in zip(exact, exact[1:], strict=False))
    return Worked(
        question=(
            "Accuracy per token rises evenly from 50 to 100 % over six sizes. How does exact match of 10 tokens rise?"
        ),
        answer="From 0.1 % to 100 %, two thirds of it in the last step: sudden, with nothing sudden behind it.",
        facts=(
            Fact(
                what="exact match, p^10",
                expected=(0.0010, 0.0060, 0.0282, 0.1074, 0.3487, 1.0),
                computed=exact,
                tolerance=5e-5,
            ),
            Fact(
                what="share of the rise in the last of five steps",
                expected=0.652,
                computed=steps[-1] / (exact[-1] - exact[0]),
                tolerance=5e-4,
            ),
            Fact(what="every step is larger than the one before", expected=True, computed=list(steps) == sorted(steps)),
        ),
        why=(
            "All ten tokens must be right, so small gains stay invisible until p is near 1. The same outputs under a "
            "metric that gives partial credit rise evenly (Schaeffer et al. 2023). An ability that seems to appear at "
            "an exact size may have grown all along."
        ),
        grids=(
            Grid(
                title="If p rose evenly (invented numbers)",
                columns=("size", "tokens right", "10 tokens exact"),
                rows=tuple(
                    (str(size), f"{100 * p:.0f} %", f"{100 * match:.1f} %")
                    for size, (p, match) in enumerate(zip(accuracies, exact, strict=True), start=1)
                ),
            ),
        ),
        corrections=(
            "Printed: abilities appear sharply, not explicitly trained, at scale. Right: mostly a matter of the "
            "metric (Schaeffer et al. 2023); in-context learning appears in 2-layer models on the right data, and "
            "few-shot gains in GPT-3 are graded. Data and a depth of at least 2 matter.",
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="two-truths", lesson="A, slides 25-29", title="two truths and a lie", run=_two_truths),
    Example(name="sudden-metric", lesson="A, slide 25; C", title="abilities that look sudden", run=_sudden_metric),
)
