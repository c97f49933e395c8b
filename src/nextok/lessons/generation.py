"""Lesson A's generation loop: greedy decoding step by step, the first distribution, the slide, where the loop fails.

Axes: B batch, T positions, D width, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nextok.decode import SamplingConfig, distribution
from nextok.lessons.tinygpt import PROMPT, greedy, lesson_loop, tiny_gpt
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import next_token_loss
from nextok.reference.ops import softmax
from nextok.spec import ModelConfig

_DIGITS = 5.1e-5  # the lessons print four
_NEW = (42, 2, 38, 35, 35)
_P_NEW = (0.0435, 0.0509, 0.1318, 0.0709, 0.0657)
_SECOND = (20, 48, 34, 18, 6)
_P_SECOND = (0.0359, 0.0491, 0.0524, 0.0522, 0.0391)
_MARGINS = (0.192, 0.038, 0.923, 0.306, 0.520)


def _greedy() -> Worked:
    model = tiny_gpt()
    expected = (*PROMPT, *_NEW)
    steps = lesson_loop(model, PROMPT, 5)
    best = [logits_V.softmax(-1).topk(2) for logits_V in steps]
    margins = tuple(-logits_V.topk(2).values.diff().item() for logits_V in steps)
    return Worked(
        question="TinyGPT with seed 42 has learned nothing yet: what does greedy decoding add to 5, 12, 3 in 5 steps?",
        answer="42, 2, 38, 35, 35: an untrained model prefers some token everywhere, and argmax always takes it.",
        facts=(
            Fact(what="ids, with the cache", expected=expected, computed=greedy(model, PROMPT, 5)),
            Fact(
                what="new ids by the lesson's loop", expected=_NEW, computed=tuple(int(step.argmax()) for step in steps)
            ),
            Fact(what="p(new)", expected=_P_NEW, computed=tuple(b.values[0].item() for b in best), tolerance=_DIGITS),
            Fact(what="second choice", expected=_SECOND, computed=tuple(int(b.indices[1]) for b in best)),
            Fact(
                what="p(second)",
                expected=_P_SECOND,
                computed=tuple(b.values[1].item() for b in best),
                tolerance=_DIGITS,
            ),
            Fact(what="logit margin", expected=_MARGINS, computed=margins, tolerance=5.1e-4),
            Fact(what="positions used by the greedy run", expected=(0, 1, 2, 3, 4, 5, 6), computed=_positions_used()),
            Fact(what="ids in float64", expected=expected, computed=greedy(tiny_gpt().double(), PROMPT, 5)),
            Fact(what="ids in bfloat16", expected=expected, computed=_in_bfloat16()),
            Fact(what="ids with tanh GELU", expected=expected, computed=greedy(tiny_gpt(mlp="gelu_tanh"), PROMPT, 5)),
            Fact(what="shape of the printed line's new id", expected=(1, 1, 1), computed=tuple(_printed_id().shape)),
            Fact(
                what="torch.cat takes the printed line's id",
                expected="RuntimeError",
                computed=_outcome(lambda: torch.cat([torch.tensor([PROMPT]), _printed_id()], dim=1))[0],
            ),
        ),
        why=(
            "Five times: read the context, take the logits of the last position, take the largest, append it. "
            "The context grows from (1, 3) to (1, 7), the logits from (1, 3, 50) to (1, 7, 50); only the last row is "
            "used. Step 2 is decided by 0.038 of a logit, so a quantised copy of the model may go another way there. "
            "The loop ends at an end token or, as here, at a length."
        ),
        grids=(_greedy_grid(steps),),
        corrections=(
            "Printed: the generate line ends `argmax(-1, keepdim=True).squeeze(0).unsqueeze(0)`. Right: the id stays "
            '(1, 1, 1) and torch.cat raises "Tensors must have same number of dimensions: got 2 and 3"; '
            "`logits[:, -1:].argmax(-1)` gives 5, 12, 3, 42, 2, 38, 35, 35.",
        ),
    )


def _first_distribution() -> Worked:
    [logits_V] = lesson_loop(tiny_gpt(), PROMPT, 1)
    logprobs_V = logits_V.double().log_softmax(-1)
    return Worked(
        question="How sure is the untrained TinyGPT of its first token, 42, and what does temperature do to it?",
        answer="p(42) is 0.0435; dividing the logits by 0.5 makes it 0.0822, dividing by 2 makes it 0.0301.",
        facts=(
            Fact(
                what="entropy (nats)",
                expected=3.838,
                computed=-(logprobs_V.exp() * logprobs_V).sum().item(),
                tolerance=5.1e-4,
            ),
            Fact(what="tokens kept by top-k 5", expected=5, computed=_kept(logits_V, top_k=5)),
            Fact(what="tokens in the nucleus of 0.9", expected=41, computed=_kept(logits_V, top_p=0.9)),
            Fact(
                what="p(42) at temperature 0.5, 1, 2",
                expected=(0.0822, 0.0435, 0.0301),
                computed=tuple(_probability(logits_V, 42, temperature) for temperature in (0.5, 1.0, 2.0)),
                tolerance=_DIGITS,
            ),
            Fact(what="tokens kept at temperature 0", expected=1, computed=_kept(logits_V, temperature=0)),
        ),
        why=(
            "The entropy is close to ln 50 = 3.912, that of 50 equal tokens: the model knows almost nothing. "
            "So a nucleus of 0.9 still needs 41 of 50 tokens, where a trained model would need a few. "
            "Temperature divides the logits before the softmax: below 1 it sharpens, above 1 it flattens, and it never "
            "changes which token is first."
        ),
    )


def _past_the_context() -> Worked:
    model = tiny_gpt()
    ids = greedy(model, PROMPT, 40)
    loop = tuple(int(logits_V.argmax()) for logits_V in lesson_loop(model, PROMPT, 40))
    return Worked(
        question="After 42, 2, 38, 35, 35 the context of 8 is full. If the window slides, is it 35 for ever?",
        answer="No: five more 35, then 4, 34, and from there 17 for ever.",
        facts=(
            Fact(what="steps 6 to 10", expected=(35,) * 5, computed=ids[8:13]),
            Fact(what="steps 11 and 12", expected=(4, 34), computed=ids[13:15]),
            Fact(what="steps 13 to 40", expected=(17,) * 28, computed=ids[15:]),
            Fact(what="context of step 11", expected=(38, *(35,) * 7), computed=ids[5:13]),
            Fact(what="after eight 17", expected=17, computed=greedy(model, (17,) * 8, 1)[-1]),
            Fact(what="the lesson's loop agrees", expected=True, computed=loop == ids[len(PROMPT) :]),
            Fact(what="float64 agrees", expected=True, computed=greedy(tiny_gpt().double(), PROMPT, 40) == ids),
        ),
        why=(
            "From step 6 on the model sees the last 8 ids only, and every id moves down a place at each step. "
            "The text repeats while the context still changes: at step 11 it is one 38 and seven 35, and 4 wins. "
            "Once it is eight times 17 and 17 wins again, input and output repeat for good, since greedy decoding has "
            "no way out of a context it has seen."
        ),
    )


def _edge_cases() -> Worked:
    outcomes = [(case, _outcome(case.lesson), _outcome(case.nextok)) for case in _EDGES]
    return Worked(
        question="Where does the lesson's program stop working, and with what?",
        answer="Past the context, without a prompt, when heads do not divide d, with arange(T), in a fully masked row.",
        facts=(
            *(
                Fact(what=f"{case.what}: lesson, nextok", expected=case.expected, computed=f"{lesson[0]}, {own[0]}")
                for case, lesson, own in outcomes
            ),
            Fact(
                what="position rows with gradient after 7 tokens",
                expected=(0, 1, 2, 3, 4, 5, 6),
                computed=_rows_with_gradient(7),
            ),
        ),
        why=(
            "Each is met by the printed program with an error from deep inside, or with NaN. "
            "nextok refuses the first three at the door and says what to do, takes positions from the length that "
            "came, and has no row that sees nothing, since each position sees itself. "
            "Training on 7 tokens leaves row 7 of the position table without gradient: it stays as it was drawn."
        ),
        grids=(
            Grid(
                title="where it stops",
                columns=("case", "the lesson's program", "nextok"),
                rows=tuple((case.what, lesson[1], own[1]) for case, lesson, own in outcomes),
            ),
        ),
        corrections=(
            "Printed: positions index torch.arange(T), the context. Right: torch.arange(t), the current length; "
            "arange(8) with the 7 training tokens is a shape error.",
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edge:
    """An input at which the printed program stops, and what nextok does with it."""

    what: str
    expected: str
    """What each ends in: the class of an error, or a shape, or values."""
    lesson: Callable[[], object]
    nextok: Callable[[], object]


_EDGES = (
    _Edge(
        what="9 tokens, context 8",
        expected="IndexError, InputError",
        lesson=lambda: F.embedding(torch.arange(9), torch.zeros(8, 64)),
        nextok=lambda: tiny_gpt()(torch.zeros(1, 9, dtype=torch.int64)),
    ),
    _Edge(
        what="empty prompt",
        expected="IndexError, PromptError",
        lesson=lambda: torch.zeros(1, 0, 50)[:, -1],
        nextok=lambda: greedy(tiny_gpt(), (), 1),
    ),
    _Edge(
        what="d 64, 5 heads",
        expected="RuntimeError, ModelConfigError",
        lesson=lambda: torch.zeros(2, 8, 64).view(2, 8, 5, 64 // 5),
        nextok=lambda: ModelConfig(vocab_size=50, n_layers=2, d_model=64, n_heads=5, context=8),
    ),
    _Edge(
        what="position table of 8, 7 tokens",
        expected="RuntimeError, (8, 7, 50)",
        lesson=lambda: torch.zeros(8, 7, 64) + F.embedding(torch.arange(8), torch.zeros(8, 64)),
        nextok=lambda: tuple(tiny_gpt()(torch.zeros(8, 7, dtype=torch.int64)).shape),
    ),
    _Edge(
        what="fully masked row",
        expected="(nan, nan), (0.0, 0.0)",
        lesson=lambda: tuple(torch.full((2,), -math.inf).softmax(-1).tolist()),
        nextok=lambda: tuple(softmax(np.full(2, -np.inf)).tolist()),
    ),
)


def _outcome(run: Callable[[], object]) -> tuple[str, str]:
    """Returns what a call ends in, and the same with what an error says."""
    try:
        result = str(run())
    except Exception as error:  # the lesson's program fails in several ways, and each is told
        return type(error).__name__, f"{type(error).__name__}: {error}"
    return result, result


def _printed_id() -> Tensor:
    """Returns the new id as the lesson's generate line makes it."""
    with torch.inference_mode():
        return tiny_gpt()(torch.tensor([PROMPT]))[:, -1:].argmax(-1, keepdim=True).squeeze(0).unsqueeze(0)


def _in_bfloat16() -> tuple[int, ...]:
    """Returns the greedy run in bfloat16 by torch's own kernels; oneDNN's round as the processor has it."""
    before, *_ = torch.backends.mkldnn.set_flags(False, None, None, None)  # noqa: FBT003 - torch's signature
    try:
        return greedy(tiny_gpt().bfloat16(), PROMPT, 5)
    finally:
        torch.backends.mkldnn.set_flags(before, None, None, None)


def _positions_used() -> tuple[int, ...]:
    """Returns the rows of the position table that the greedy run reads: those whose NaN reaches its logits."""
    used = []
    for row in range(tiny_gpt().config.context):
        model = tiny_gpt()
        with torch.no_grad():
            model.get_parameter("embed.positions.weight")[row] = math.nan
        if any(logits_V.isnan().any() for logits_V in lesson_loop(model, PROMPT, 5)):
            used.append(row)
    return tuple(used)


def _greedy_grid(steps: Sequence[Tensor]) -> Grid:
    ids, rows = list(PROMPT), []
    for number, logits_V in enumerate(steps, start=1):
        new, second = logits_V.topk(2).indices.tolist()
        p_new, p_second = logits_V.softmax(-1)[[new, second]].tolist()
        margin = (logits_V[new] - logits_V[second]).item()
        cells = (number, len(ids), tuple(ids[-3:]), new, p_new)
        rows.append((*map(spelled, cells), f"{second} ({p_second:.4f})", f"{margin:.3f}"))
        ids.append(new)
    columns = ("step", "context", "last three", "new", "p(new)", "second (p)", "logit margin")
    return Grid(title="greedy, step by step", columns=columns, rows=tuple(rows))


def _kept(logits_V: Tensor, **options: float) -> int:
    """Returns how many tokens the sampler leaves."""
    kept = distribution(logits_V.numpy(), SamplingConfig(**{"temperature": 1.0, **options}))  # type: ignore[arg-type]
    return int((kept.probabilities > 0).sum())


def _probability(logits_V: Tensor, token: int, temperature: float) -> float:
    """Returns the token's probability as the sampler has it."""
    kept = distribution(logits_V.numpy(), SamplingConfig(temperature=temperature))
    return float(kept.probabilities[kept.ids == token].sum())


def _rows_with_gradient(tokens: int) -> tuple[int, ...]:
    """Returns the rows of the position table that a training step over so many tokens reaches."""
    model = tiny_gpt()
    ids_BT = torch.arange(2 * tokens).view(2, tokens)
    next_token_loss(model(ids_BT), ids_BT).backward()
    gradient_TD = model.get_parameter("embed.positions.weight").grad
    assert gradient_TD is not None, "the position table takes part in every pass"
    return tuple(gradient_TD.abs().sum(-1).nonzero().flatten().tolist())


EXAMPLES: tuple[Example, ...] = (
    Example(name="greedy", lesson="A, slides 33-35", title="greedy generation, step by step", run=_greedy),
    Example(
        name="first-distribution",
        lesson="A, slides 31-35",
        title="entropy, nucleus and temperature",
        run=_first_distribution,
    ),
    Example(name="past-the-context", lesson="A, slides 33-35", title="when the window slides", run=_past_the_context),
    Example(name="edge-cases", lesson="A, slides 39-41", title="where the program stops working", run=_edge_cases),
)
