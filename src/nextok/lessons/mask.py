"""The causal mask: what it removes, what that costs, and why it stands before the softmax.

Axes: T queries, S keys, K head width. All attention here is `nextok.model`'s own, read through its hook points.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import Taps, build
from nextok.model.attention import causal_mask, stepwise_attention
from nextok.reference.ops import softmax
from nextok.spec import ModelConfig, preset_config
from nextok.spec.count import FLOAT_BYTES

_DIGITS = 5.1e-5  # the lessons print four
_MIB = 2**20
_PAGE_IDS = (5, 12, 3, 42, 2, 38)
_ATTN = (
    (1.0, 0.0, 0.0, 0.0),
    (0.3847, 0.6153, 0.0, 0.0),
    (0.0494, 0.1536, 0.7970, 0.0),
    (0.1979, 0.4743, 0.2192, 0.1086),
)
_OUT = (
    (-0.0835, -0.0235, 0.1744, 2.2983),
    (0.5568, -0.4163, -0.4427, 0.5114),
    (-0.9738, 0.9311, 1.1891, -0.8216),
    (0.1018, -0.0613, 0.0558, -0.0359),
)
_ROW_0_OPEN = (0.4270, 0.2260, 0.0467, 0.3003)


def _causal_mask() -> Worked:
    T = 5
    mask_TS = _mask(T)
    return Worked(
        question="Five tokens: how many of the 25 pairs of query and key may a causal mask let through?",
        answer="15 of 25: row t, counted from 0, attends to positions 0 to t, which are t + 1.",
        facts=(
            Fact(what="ones in the mask for T = 5", expected=15, computed=int(mask_TS.sum())),
            Fact(what="cells of the mask", expected=25, computed=mask_TS.numel()),
            Fact(what="attended per row", expected=(1, 2, 3, 4, 5), computed=tuple(mask_TS.sum(1).tolist())),
            Fact(
                what="pairs for T = 4, 5, 6, 8",
                expected=(10, 15, 21, 36),
                computed=tuple(int(_mask(size).sum()) for size in (4, 5, 6, 8)),
            ),
        ),
        why=(
            "The mask is a lower triangle with the diagonal: a token may look at itself and at everything before it. "
            "Row t has t + 1 ones, and 1 + 2 + ... + T = T(T + 1)/2. "
            "The diagonal belongs to it because the logits at position t predict token t + 1, so token t is past."
        ),
        grids=(_matrix("the mask, T = 5", mask_TS.int(), columns="key"),),
        corrections=(
            "Printed: positions 1..t on one slide and 0..t on another. Right: one origin, 0; row t attends to 0..t, "
            "which are t + 1 positions.",
        ),
    )


def _mask_cost() -> Worked:
    gpt2 = preset_config("gpt2")
    sizes = (4, 5, gpt2.context)
    scores_mib = _score_bytes(gpt2) / _MIB
    return Worked(
        question="What share of the attention scores is computed and then thrown away, at T = 4, 5 and 1,024?",
        answer="37.5 %, 40 % and 49.95 %: T(T - 1)/2 of T x T scores, which comes close to half and never reaches it.",
        facts=(
            Fact(
                what="thrown away at T = 4, 5, 1024 (%)",
                expected=(37.5, 40.0, 49.95),
                computed=tuple(100 * _thrown_away(size) for size in sizes),
                tolerance=0.005,
            ),
            Fact(what="score memory of one layer of GPT-2 small (MiB a sequence)", expected=48.0, computed=scores_mib),
        ),
        why=(
            "The whole T x T matrix is one product, which is fast, and the upper triangle is lost with it. "
            "GPT-2 small holds 12 heads x 1,024 x 1,024 scores of 4 bytes in each layer for each sequence. "
            "Fused attention never stores them: it works through the matrix in tiles and can leave masked tiles out."
        ),
        grids=(
            Grid(
                title="what the mask throws away",
                columns=("T", "scores", "kept", "thrown away", "share"),
                rows=tuple(_cost_row(size) for size in (*sizes[:2], 8, 64, sizes[-1])),
            ),
        ),
    )


def _attention_row() -> Worked:
    values = _attend()
    rows = range(4)
    return Worked(
        question="T = 4 tokens, random Q, K and V, causal mask: what are row 0 of the attention weights and out[0]?",
        answer="attn[0] is 1, 0, 0, 0 and out[0] is V[0], whatever the scores are: token 0 sees itself alone.",
        facts=(
            Fact(
                what="shapes of scores, attn, out",
                expected="(4, 4), (4, 4), (4, 4)",
                computed=", ".join(str(tuple(values[name].shape)) for name in ("scores", "pattern", "out")),
            ),
            _rounded("scores row 0", (3.3594, 2.0866, -1.0663, 2.6557), values["scores"][0]),
            _rounded("scaled row 0", (1.6797, 1.0433, -0.5332, 1.3279), values["scaled"][0]),
            *(_rounded(f"attn[{row}]", _ATTN[row], values["pattern"][row]) for row in rows),
            *(_rounded(f"out[{row}]", _OUT[row], values["out"][row]) for row in rows),
            Fact(what="out[0] is V[0]", expected=True, computed=torch.equal(values["out"][0], _draw()[2][0, 0, 0])),
            _rounded("row 0 without the mask", _ROW_0_OPEN, _attend(causal=False)["pattern"][0]),
        ),
        why=(
            "Scores are divided by sqrt(4) = 2, the future becomes -inf, and softmax shares 1 among what is left. "
            "Row 0 has one entry left, so it is one-hot for any Q and K: it shows the mask, not the softmax. "
            "Row 3 has all four left: it shows the softmax, not the mask. Only the rows between show both."
        ),
        grids=(
            _matrix("attn, torch seed 7", values["pattern"], columns="key"),
            _matrix("out = attn V", values["out"], columns="dim"),
        ),
    )


def _mask_order() -> Worked:
    before_TS = _attend()["pattern"]
    after_TS = _attend(causal=False)["pattern"] * _mask(4)
    renormalised_TS = after_TS / after_TS.sum(-1, keepdim=True)
    zeroed_TS = _masked_with(0.0)
    return Worked(
        question="Take the softmax first and zero the future afterwards: do the rows still sum to 1?",
        answer="No: they sum to 0.4270, 0.2360, 0.7982 and 1; dividing each row by its sum gives the right weights.",
        facts=(
            _rounded("row sums, masked before", (1.0, 1.0, 1.0, 1.0), before_TS.sum(-1)),
            _rounded("row sums, masked after", (0.4270, 0.2360, 0.7982, 1.0), after_TS.sum(-1)),
            Fact(
                what="largest difference, renormalised against masked before",
                expected=0.0,
                computed=_gap(renormalised_TS, before_TS),
                tolerance=1e-6,
            ),
            _rounded("row 0, masked with 0 in place of -inf", (0.6413, 0.1196, 0.1196, 0.1196), zeroed_TS[0]),
        ),
        why=(
            "Softmax divides by a sum; taken first, that sum holds the future's terms, and zeroing them afterwards "
            "leaves less than 1. Dividing by what is left cancels the common sum, so masking first and renormalising "
            "are the same weights; masking first does it in one step. "
            "A score of 0 is no mask: exp(0) = 1, so every future token keeps a share."
        ),
        grids=(
            Grid(
                title="row 0 four ways",
                columns=("way", "key 0", "key 1", "key 2", "key 3", "sum"),
                rows=(
                    _row("-inf before the softmax", before_TS[0]),
                    _row("zeroed after the softmax", after_TS[0]),
                    _row("zeroed, then renormalised", renormalised_TS[0]),
                    _row("0 before the softmax", zeroed_TS[0]),
                ),
            ),
        ),
        corrections=(
            "Printed: after zeroing behind the softmax the row no longer sums to 1 and its denominator used the "
            "future. Right: that holds only without renormalising; softmax, zero, renormalise equals masking first.",
        ),
    )


def _mask_value() -> Worked:
    inf_TS, big_TS = _masked_with(-math.inf), _masked_with(-1e9)
    closed_S = torch.full((3,), -math.inf)
    half_S = torch.full((3,), -1e9).half()
    return Worked(
        question="One lesson masks with -inf, the other with -1e9: when does the difference show?",
        answer=(
            "Only in a row masked throughout: NaN with -inf, uniform with -1e9. In float16 -1e9 is -inf itself, and "
            "both give NaN."
        ),
        facts=(
            Fact(what="weights are equal, bit by bit", expected=True, computed=torch.equal(inf_TS, big_TS)),
            Fact(what="exp(-1e9) in float32", expected=0.0, computed=torch.tensor(-1e9).exp().item()),
            Fact(what="-inf throughout gives NaN", expected=True, computed=bool(closed_S.softmax(-1).isnan().all())),
            _rounded("-1e9 throughout", (0.3333, 0.3333, 0.3333), torch.full((3,), -1e9).softmax(-1)),
            Fact(what="-1e9 in float16", expected=-math.inf, computed=half_S[0].item()),
            Fact(
                what="-1e9 throughout in float16 gives NaN",
                expected=True,
                computed=bool(half_S.softmax(-1).isnan().all()),
            ),
            Fact(
                what="-inf throughout in nextok.reference",
                expected=(0.0, 0.0, 0.0),
                computed=tuple(softmax(closed_S.numpy()).tolist()),
            ),
        ),
        why=(
            "exp(-1e9) underflows to exactly 0, as exp(-inf) is, so the two agree wherever a row keeps one score. "
            "A causal row always keeps its own position. With padding or a wrong mask a row can lose all: -inf then "
            "gives 0/0 = NaN, which is seen, and -1e9 a uniform row, which is not. "
            "float16 ends at 65,504, so -1e9 becomes -inf there."
        ),
        corrections=(
            "Printed: -inf in the text, -1e9 in the code. Right: equal for causal rows (exactly 0); a fully masked row "
            "becomes uniform with -1e9 and NaN with -inf; -1e9 is -inf in float16.",
            'Printed: "upper-triangular matrix ... 0 on and below the diagonal", and softmax(-inf) = 0. Right: the '
            "part strictly above the diagonal is -inf, the rest 0; what is 0 is exp(-inf), a term of the softmax.",
        ),
    )


def _mask_page() -> Worked:
    on_TS, off_TS = _page_pattern("causal"), _page_pattern("none")
    n = on_TS.shape[0]
    return Worked(
        question="The page shows 6 tokens and reveals a row per click: what does row 0 hold, and what do rows sum to?",
        answer="Row 0 holds exactly 1 on its own token, and every row sums to 1, with the mask and without.",
        facts=(
            Fact(what="positions", expected=6, computed=n),
            Fact(what="start state", expected="1 / 6", computed=f"{_sees(on_TS)[0]} / {n}"),
            Fact(what="row 0, first cell", expected=1.0, computed=on_TS[0, 0].item()),
            _rounded("row sums, mask on", (1.0,) * 6, on_TS.sum(-1)),
            _rounded("row sums, mask off", (1.0,) * 6, off_TS.sum(-1)),
            Fact(what="keys seen per row, mask on", expected=(1, 2, 3, 4, 5, 6), computed=_sees(on_TS)),
            Fact(what="keys seen per row, mask off", expected=(6,) * 6, computed=_sees(off_TS)),
            Fact(what="black cells", expected=15, computed=int((on_TS == 0).sum())),
        ),
        why=(
            "Each revealed row is a softmax over what its token may see, so it sums to 1 in both modes. "
            "With the mask on row t has t + 1 cells and the rest is exactly 0; off, as in BERT, every row looks at all "
            "six tokens, those not yet generated included. "
            "The weights here are head 0 of block 0 of TinyGPT, seed 42, on the ids of its own greedy run."
        ),
        grids=(
            _matrix("mask on (GPT)", on_TS, columns="key", hide_zeros=True),
            _matrix("mask off (BERT-style)", off_TS, columns="key"),
        ),
    )


def _mask(size: int) -> Tensor:
    return causal_mask(size, size, torch.device("cpu"))


def _thrown_away(size: int) -> float:
    return float((~_mask(size)).sum()) / size**2


def _score_bytes(config: ModelConfig) -> int:
    """Returns the bytes of one layer's scores for one sequence of full length."""
    return FLOAT_BYTES * config.n_heads * config.context**2


def _cost_row(size: int) -> tuple[str, ...]:
    kept = int(_mask(size).sum())
    counts = (spelled(count) for count in (size, size**2, kept, size**2 - kept))
    return (*counts, f"{100 * _thrown_away(size):.2f} %")


def _draw() -> tuple[Tensor, Tensor, Tensor]:
    """Returns lesson A's queries, keys and values, `[1, 1, T, K]`, as after torch.manual_seed(7)."""
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(4, 4, generator=generator)[None, None] for _ in range(3))
    return q, k, v


def _attend(*, causal: bool = True, masked: Callable[[Tensor], Tensor] | None = None) -> dict[str, Tensor]:
    """Returns the values of the seed-7 example by hook point, `[T, S]`, and `out` `[T, K]`."""
    taps = Taps(
        record=("scores", "scaled", "masked", "pattern"), replace=None if masked is None else {"masked": masked}
    )
    out = stepwise_attention(*_draw(), causal=causal, dropout=0.0, taps=taps)
    return {name: value[0, 0] for name, value in {**taps.recorded, "out": out}.items()}


def _masked_with(score: float) -> Tensor:
    """Returns the attention weights with this score in place of -inf."""
    return _attend(masked=lambda masked: masked.masked_fill(masked == -math.inf, score))["pattern"]


def _page_pattern(mask: Literal["causal", "none"]) -> Tensor:
    """Returns the weights of head 0 in block 0 of TinyGPT over six tokens, `[T, S]`."""
    model = build(dataclasses.replace(preset_config("lesson-a"), mask=mask), seed=42)
    name = "blocks.0.attn.pattern"
    with torch.inference_mode():
        return model.trace(torch.tensor([_PAGE_IDS]), [name])[name][0, 0]


def _sees(pattern_TS: Tensor) -> tuple[int, ...]:
    return tuple((pattern_TS > 0).sum(-1).tolist())


def _gap(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def _rounded(what: str, expected: tuple[float, ...], computed: Tensor) -> Fact:
    return Fact(what=what, expected=expected, computed=tuple(computed.tolist()), tolerance=_DIGITS)


def _row(name: str, weights_S: Tensor) -> tuple[str, ...]:
    return (name, *(spelled(value) for value in (*weights_S.tolist(), weights_S.sum().item())))


def _matrix(title: str, values: Tensor, *, columns: str, hide_zeros: bool = False) -> Grid:
    """Returns a matrix as a table; with `hide_zeros` what is exactly 0 is blank."""
    cells = [["" if hide_zeros and value == 0 else spelled(value) for value in row] for row in values.tolist()]
    names = tuple(f"{columns} {index}" for index in range(values.shape[1]))
    rows = tuple((f"row {index}", *row) for index, row in enumerate(cells))
    return Grid(title=title, columns=("", *names), rows=rows)


EXAMPLES: tuple[Example, ...] = (
    Example(name="mask", lesson="A, slides 8 and 42-43", title="the causal mask of five tokens", run=_causal_mask),
    Example(name="mask-cost", lesson="A, slide 9", title="what the mask throws away", run=_mask_cost),
    Example(
        name="attention-row", lesson="A, slides 10-12", title="masked attention, number by number", run=_attention_row
    ),
    Example(name="mask-order", lesson="A, slide 9; C", title="mask before or after the softmax", run=_mask_order),
    Example(name="mask-value", lesson="B and C", title="-inf against -1e9", run=_mask_value),
    Example(name="mask-page", lesson="C, interactive page", title="six tokens, a row at a time", run=_mask_page),
)
