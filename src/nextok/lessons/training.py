"""Lesson A's training run: 20 Adam steps on one batch of random ids, its loss, and what it does not prove.

Axes: B batch, T positions, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nextok.errors import InputError
from nextok.lessons.tinygpt import PROMPT, SEED, greedy, tiny_config, tiny_gpt
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import GPT, build, next_token_loss, weight_arrays
from nextok.reference import Adam, backward
from nextok.spec import ModelConfig

_DIGITS = 6e-5  # the lessons print four
_LOSSES = (
    (4.0511, 3.8818, 3.7180, 3.5600, 3.4078, 3.2616, 3.1209, 2.9855, 2.8549, 2.7282)
    + (2.6049, 2.4842, 2.3656, 2.2486, 2.1332, 2.0193, 1.9070, 1.7968, 1.6889, 1.5836)
)  # fmt: skip
_ROW = (23, 11, 3, 33, 18, 0, 32, 43)
_FIRST_SEEDS = 300


@dataclass(frozen=True, slots=True)
class Run:
    """A training run of the lesson; it is shared, so nobody changes its model."""

    model: GPT
    """After the last step."""
    losses: tuple[float, ...]
    """Of each step, before it, nats a token."""
    window_BT: Tensor  # noqa: N815 - axis letters
    """The one batch, `[8, 8]` ids: inputs are all but the last column, targets all but the first."""


@cache
def lesson_run(steps: int = 20, *, input_end: int = -1, target_start: int = 1, **parts: object) -> Run:
    """Returns the lesson's run: Adam at 1e-3 on ids drawn right after the model, under torch.manual_seed(42).

    Args:
        steps: Steps to take.
        input_end: Where the inputs stop in a row of 8 ids.
        target_start: Where the targets start; they are as many as the inputs.
        **parts: Parts of the model that differ.
    """
    model, window_BT = _drawn(SEED, tiny_config(**parts))
    inputs_BT = window_BT[:, :input_end]
    targets_BT = window_BT[:, target_start : target_start + inputs_BT.shape[1]]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = next_token_loss(model(inputs_BT), targets_BT)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Run(model, tuple(losses), window_BT)


def _loss_formula() -> Worked:
    ids = greedy(tiny_gpt(), PROMPT, 5)
    with torch.inference_mode():
        logits_1TV = tiny_gpt()(torch.tensor([ids[:-1]]))
        loss = next_token_loss(logits_1TV, torch.tensor([ids[1:]])).item()
    logprobs_TV = logits_1TV[0].log_softmax(-1)
    terms = tuple(-logprobs_TV[i, ids[i + 1]].item() for i in range(len(ids) - 1))
    by_hand = sum(terms) / len(terms)
    return Worked(
        question="A text of n = 8 tokens: how many terms does the training loss average?",
        answer="Seven: L = -(1/(n-1)) sum over i = 0..n-2 of log P(x_{i+1} | x_0..x_i); the first token has no target.",
        facts=(
            Fact(what="targets of 8 tokens", expected=7, computed=len(terms)),
            Fact(
                what="the mean by hand, less the loss",
                expected=0.0,
                computed=by_hand - loss,
                tolerance=1e-6,
            ),
            Fact(
                what="P(target) at i = 2 to 6: those of the five greedy steps",
                expected=(0.0435, 0.0509, 0.1318, 0.0709, 0.0657),
                computed=tuple(math.exp(-term) for term in terms[2:]),
                tolerance=_DIGITS,
            ),
            Fact(what="matrix products in the one pass", expected=13, computed=_products_of_a_pass()),
        ),
        why=(
            "The logits at position i predict token i + 1, so targets are the inputs shifted by one, and the last "
            "token is a target only. T targets need T + 1 tokens, or a token that begins every text. "
            "One pass gives all seven terms; the last five are what generation found in five passes."
        ),
        grids=(
            Grid(
                title="the terms for 5, 12, 3, 42, 2, 38, 35, 35 and TinyGPT, untrained",
                columns=("i", "reads", "target", "-log P"),
                rows=(
                    *((str(i), spelled(ids[: i + 1]), str(ids[i + 1]), f"{term:.4f}") for i, term in enumerate(terms)),
                    ("", "", "mean", f"{by_hand:.4f}"),
                ),
            ),
        ),
        corrections=(
            'Printed: all positions are computed by "a single matrix multiply". Right: by a single forward pass, which '
            "here is 13 products: 6 in each block, and the head.",
            "Printed: the loss averages T terms from t = 1. Right: T tokens give T - 1 targets, as in the lesson's own "
            "code; a term for the first token needs a begin token. Indices here start at 0: x_{i+1} given x_0..x_i.",
            "Printed: the formula of the objective is missing in lesson B. Right: L = -(1/(n-1)) sum over i of "
            "log P(x_{i+1} | x_0..x_i).",
        ),
    )


def _wrong_targets() -> Worked:
    right, copied = lesson_run(), lesson_run(target_start=0)
    skipping = lesson_run(input_end=-2, target_start=2)
    names = ("shifted by 1", "equal to the input", "shifted by 2")
    runs = (right, copied, skipping)
    true_losses = tuple(_true_loss(run.model) for run in runs)
    return Worked(
        question="Targets equal to the inputs, or shifted by 2, have the same shape: does the loss show the mistake?",
        answer="No: it falls just as well, to 1.1797 and 1.3511 after 20 steps, but the model learns another task.",
        facts=(
            Fact(
                what="its own loss at step 20: by 1, equal, by 2",
                expected=(1.5836, 1.1797, 1.3511),
                computed=tuple(run.losses[-1] for run in runs),
                tolerance=2e-4,
            ),
            Fact(what="after 23, 11, 3: by 1", expected=_ROW[3:], computed=greedy(right.model, _ROW[:3], 5)[3:]),
            Fact(what="after 23, 11, 3: equal", expected=(3,) * 5, computed=greedy(copied.model, _ROW[:3], 5)[3:]),
            Fact(what="first after 23, 11, 3: by 2", expected=_ROW[4], computed=greedy(skipping.model, _ROW[:3], 1)[3]),
            Fact(
                what="next-token loss below ln 50: by 1, equal, by 2",
                expected="yes, no, no",
                computed=", ".join(spelled(loss < math.log(50)) for loss in true_losses),
            ),
            Fact(what="targets shifted twice are refused", expected=True, computed=_refuses_a_second_shift()),
        ),
        why=(
            "A loss only says how well the targets given are met. Copying is the easiest of the three tasks and falls "
            "fastest; what it generates is the last token again. "
            "As a next-token predictor either wrong model is worse than guessing among 50 tokens, ln 50 = 3.912. "
            "What shows the mistake is a continuation, or the loss on targets cut by someone else."
        ),
        grids=(
            Grid(
                title="20 steps on three kinds of targets",
                columns=("targets", "its own loss, step 20", "next-token loss", "after 23, 11, 3"),
                rows=tuple(
                    (name, spelled(run.losses[-1]), spelled(loss), spelled(greedy(run.model, _ROW[:3], 5)[3:]))
                    for name, run, loss in zip(names, runs, true_losses, strict=True)
                ),
            ),
        ),
    )


def _twenty_steps() -> Worked:
    run = lesson_run()
    logits_BTV = run.model(run.window_BT[:, :-1])
    return Worked(
        question="20 Adam steps on one batch of random ids, from a first loss of 4.0511: where does the loss end?",
        answer="At 1.5836, through 3.4078 at step 5 and 2.7282 at step 10.",
        facts=(
            Fact(what="losses of the 20 steps", expected=_LOSSES, computed=run.losses, tolerance=_DIGITS),
            Fact(what="the same by NumPy, step 20", expected=_LOSSES[-1], computed=_numpy_run(20), tolerance=_DIGITS),
            Fact(
                what="perplexity, first and last step",
                expected=(57.5, 4.87),
                computed=(math.exp(run.losses[0]), math.exp(run.losses[-1])),
                tolerance=0.05,
            ),
            Fact(what="logits", expected=(8, 7, 50), computed=tuple(logits_BTV.shape)),
            Fact(what="targets in the mean", expected=56, computed=run.window_BT[:, 1:].numel()),
            Fact(
                what="tanh GELU, steps 10 and 20",
                expected=(2.7283, 1.5837),
                computed=_at(lesson_run(mlp="gelu_tanh"), 10, 20),
                tolerance=_DIGITS,
            ),
        ),
        why=(
            "Each step reads the same 8 x 7 inputs, reshapes the logits to (56, 50) against 56 targets, and steps down "
            "the gradient. e to the loss is the number of equally likely tokens that would be as surprising. "
            "The second line is another program: NumPy, gradients by hand. Four digits tell the two GELUs apart."
        ),
        grids=(
            Grid(
                title="the run",
                columns=("step", "loss", "perplexity"),
                rows=tuple(
                    (str(step), f"{loss:.4f}", f"{math.exp(loss):.2f}") for step, loss in enumerate(run.losses, start=1)
                ),
            ),
        ),
    )


def _memorised() -> Worked:
    run, longer, open_run = lesson_run(), lesson_run(300), lesson_run(mask="none")
    trained, untrained = greedy(run.model, PROMPT, 5), greedy(tiny_gpt(), PROMPT, 5)
    return Worked(
        question="The 20 steps ran on random ids. What does the trained model say after 5, 12, 3, and what is it?",
        answer="33, 18, 0, 32, 43: the end of training row 1, which it has memorised; there was nothing else to learn.",
        facts=(
            Fact(what="after training", expected=(*PROMPT, *_ROW[3:]), computed=trained),
            Fact(what="training row 1 (the second)", expected=_ROW, computed=tuple(run.window_BT[1].tolist())),
            Fact(what="before training", expected=(5, 12, 3, 42, 2, 38, 35, 35), computed=untrained),
            Fact(what="step 50", expected=0.1656, computed=longer.losses[49], tolerance=5e-4),
            Fact(what="step 100", expected=0.0369, computed=longer.losses[99], tolerance=5e-4),
            Fact(what="step 300", expected=0.0067, computed=longer.losses[299], tolerance=5e-4),
            Fact(what="different prefixes among the 56", expected=56, computed=_different_prefixes(run.window_BT)),
            Fact(
                what="without the mask, steps 1, 5, 10, 20",
                expected=(4.0547, 3.4379, 2.7803, 1.6456),
                computed=_at(open_run, 1, 5, 10, 20),
                tolerance=_DIGITS,
            ),
        ),
        why=(
            "Random ids have no pattern, so a falling loss means memory alone. All 56 prefixes differ, so each can "
            "have its own answer and the loss can reach 0. The prompt ends in 3, as row 1 starts with 23, 11, 3. "
            "Without the mask the losses are nearly the same, so this exercise cannot show a missing mask: look "
            "whether a changed token changes earlier logits."
        ),
        grids=(
            Grid(
                title="losses with and without the mask",
                columns=("step", "causal", "no mask"),
                rows=tuple(
                    (str(step), *(f"{_at(each, step)[0]:.4f}" for each in (run, open_run))) for step in (1, 5, 10, 20)
                ),
            ),
        ),
        corrections=(
            'Printed: "train it, then generate", "from a trained distribution". Right: the printed code generates from '
            "a second model, which is untrained; generate from `gpt_tr`, the one that was trained.",
            "Printed: the falling loss on a random corpus as proof that training works. Right: it shows memorisation, "
            "and mask on and off cannot be told apart by it.",
        ),
    )


def _first_loss() -> Worked:
    torch_like = [_first(seed, tiny_config()) for seed in range(_FIRST_SEEDS)]
    gpt2_like = [_first(seed, tiny_config(init="gpt2")) for seed in range(_FIRST_SEEDS)]
    losses, variances = np.array(torch_like).T
    small = np.array(gpt2_like)[:, 0]
    in_band = 100 * float(((losses >= 3.94) & (losses <= 4.21)).mean())
    tied = _first(SEED, tiny_config(tied_head=True))[0]
    return Worked(
        question="50 tokens, no training: is the first loss ln 50 = 3.912?",
        answer="Not with torch's first weights: 4.0511 here, 4.08 +- 0.07 over seeds; GPT-2's smaller ones give 3.92.",
        facts=(
            Fact(what="seed 42", expected=4.0511, computed=_first(SEED, tiny_config())[0], tolerance=_DIGITS),
            Fact(what=f"mean over {_FIRST_SEEDS} seeds", expected=4.076, computed=float(losses.mean()), tolerance=1e-3),
            Fact(what="its spread (sd)", expected=0.071, computed=float(losses.std()), tolerance=1e-3),
            Fact(what="seeds in 3.94 to 4.21 (%)", expected=95.0, computed=in_band, tolerance=5.0),
            Fact(what="half the variance of the logits", expected=0.167, computed=variances.mean() / 2, tolerance=0.01),
            Fact(what="GPT-2's weights: mean", expected=3.923, computed=float(small.mean()), tolerance=3e-3),
            Fact(what="GPT-2's weights: spread (sd)", expected=0.021, computed=float(small.std()), tolerance=3e-3),
            Fact(what="tied head with N(0, 1) embeddings", expected=42.6, computed=tied, tolerance=0.05),
        ),
        why=(
            "Only equal logits give ln 50. torch's defaults give logits with a standard deviation of 0.54 to 0.58, and "
            "for such logits log sum exp is ln 50 plus half their variance, about 0.167. "
            "GPT-2 draws with 0.02, so its logits start near equal. A head tied to embeddings drawn from N(0, 1) gives "
            "the token just read a logit of about 8 x 8 / sqrt(2) = 45 and is far too sure of it."
        ),
        corrections=(
            'Printed: "initial loss near log 50 = 3.91?". Right: 4.0511; 4.08 +- 0.07 is what these first weights '
            "give, and 95 % of seeds are in 3.94 to 4.21.",
        ),
    )


def _drawn(seed: int, config: ModelConfig) -> tuple[GPT, Tensor]:
    """Returns the lesson's model and the ids `[8, 8]` drawn after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(config)
        window_BT = torch.randint(0, config.vocab_size, (8, 8))
    return (build(config, seed) if config.init == "gpt2" else model), window_BT


def _first(seed: int, config: ModelConfig) -> tuple[float, float]:
    """Returns the loss before any step, and the variance of the logits."""
    model, window_BT = _drawn(seed, config)
    if config.tied_head:  # without a head of its own to draw, the ids would be others
        window_BT = lesson_run(0).window_BT
    with torch.inference_mode():
        logits_BTV = model(window_BT[:, :-1])
        return next_token_loss(logits_BTV, window_BT[:, 1:]).item(), logits_BTV.var().item()


class _Products(TorchFunctionMode):
    """Counts the matrix products that run within it."""

    count = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += func.__name__ in ("linear", "matmul")
        return func(*args, **(kwargs or {}))


def _products_of_a_pass() -> int:
    model = tiny_gpt()
    model.use_eager_attention()  # scores and mixing as products of their own
    with _Products() as products, torch.no_grad():
        model(torch.zeros(1, 7, dtype=torch.int64))
    return products.count


def _numpy_run(steps: int) -> float:
    """Returns the loss of the last step by the NumPy twin: its own forward pass, gradients and Adam."""
    model, window_BT = _drawn(SEED, tiny_config())
    weights, ids_BT, adam = weight_arrays(model), window_BT.numpy(), Adam(lr=1e-3)
    for _ in range(steps):
        loss, grads = backward(model.config, weights, ids_BT[:, :-1], ids_BT[:, 1:])
        weights = adam.step(weights, grads)
    return loss


def _at(run: Run, *steps: int) -> tuple[float, ...]:
    return tuple(run.losses[step - 1] for step in steps)


def _true_loss(model: GPT) -> float:
    """Returns the next-token loss on the lesson's batch, whatever the model was trained on."""
    window_BT = lesson_run().window_BT
    with torch.inference_mode():
        return next_token_loss(model(window_BT[:, :-1]), window_BT[:, 1:]).item()


def _different_prefixes(window_BT: Tensor) -> int:
    rows = window_BT[:, :-1].tolist()
    return len({tuple(row[: length + 1]) for row in rows for length in range(len(row))})


def _refuses_a_second_shift() -> bool:
    ids_BT = lesson_run().window_BT
    logits_BTV = tiny_gpt()(ids_BT[:, :-1])
    try:
        next_token_loss(logits_BTV, ids_BT[:, 2:])
    except InputError:
        return True
    return False


EXAMPLES: tuple[Example, ...] = (
    Example(name="loss-formula", lesson="A, slide 6; B; C", title="the loss, term by term", run=_loss_formula),
    Example(name="wrong-targets", lesson="A, slide 7", title="targets of the right shape", run=_wrong_targets),
    Example(name="twenty-steps", lesson="A, slides 36-38, 55", title="the training run", run=_twenty_steps),
    Example(name="memorised", lesson="A, slides 49-56", title="what the run learned", run=_memorised),
    Example(name="first-loss", lesson="A, slide 55", title="is the first loss ln 50?", run=_first_loss),
)
