"""Lesson B's three exercises, each with its arithmetic."""

import math
from dataclasses import replace

import numpy as np

from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.reference import lesson_b
from nextok.reference.ops import softmax
from nextok.spec import count, preset_config


def _exercise_1() -> Worked:
    tied = count(preset_config("gpt2"))
    untied = count(replace(preset_config("gpt2"), tied_head=False))
    own = count(lesson_b()[0])
    own_untied = own.parameters + own.parameters_by_part["token embedding"]
    norm_biases = sum(w.size for w in lesson_b()[1].values()) - own.parameters  # the page's norms have biases
    table = tied.parameters_by_part["token embedding"]
    return Worked(
        question="GPT-2 small: how many numbers are in W_e, and what does tying the head to it save?",
        answer="50,257 x 768 = 38,597,376, and exactly that is saved: 23.7 % of the untied 163,037,184.",
        facts=(
            Fact(what="V d", expected=38_597_376, computed=table),
            Fact(what="tied", expected=124_439_808, computed=tied.parameters),
            Fact(what="untied", expected=163_037_184, computed=untied.parameters),
            Fact(what="untied - tied = V d", expected=True, computed=untied.parameters - tied.parameters == table),
            Fact(what="saved, %", expected=23.7, computed=100 * table / untied.parameters, tolerance=0.05),
            Fact(what="lesson B's own model, untied", expected=33_344, computed=own_untied + norm_biases),
            Fact(
                what="saved there, %",
                expected=9.6,
                computed=100 * own.parameters_by_part["token embedding"] / (own_untied + norm_biases),
                tolerance=0.05,
            ),
        ),
        why=(
            "The head maps D numbers to V logits, the embedding V ids to D numbers: the same shape, so one matrix can "
            "be both. It is stored once instead of twice. 38,597,376 / 163,037,184 = 0.237."
        ),
        corrections=(
            "Printed: tying halves the parameter count. Right: it saves V d, which is 23.7 % of GPT-2 small, 4.9 % of "
            "XL and 9.6 % of the page's own model (3,200 of 33,344); it halves the embedding and the head alone.",
        ),
    )


def _exercise_2() -> Worked:
    config = preset_config("gpt2")
    d, d_ff = config.d_model, config.d_ff
    parts = count(replace(config, bias=False)).parameters_by_part
    whole = count(config).parameters_by_part
    attention, feed_forward = (parts[name] // config.n_layers for name in ("attention", "feed-forward"))
    final_norm = 2 * d
    block = (whole["attention"] + whole["feed-forward"] + whole["norms"] - final_norm) // config.n_layers
    return Worked(
        question="One block of GPT-2 small: which is larger, attention or the feed-forward network, and by how much?",
        answer="The feed-forward network, 2 : 1: 8 d^2 = 4,718,592 against 4 d^2 = 2,359,296.",
        facts=(
            Fact(what="attention, 4 d^2", expected=2_359_296, computed=attention),
            Fact(what="feed-forward, 2 d d_ff", expected=4_718_592, computed=feed_forward),
            Fact(what="ratio", expected=2.0, computed=feed_forward / attention),
            Fact(what="together, 12 d^2", expected=7_077_888, computed=attention + feed_forward),
            Fact(what="block with biases and norms", expected=7_087_872, computed=block),
            Fact(what="as 12 d^2 + 13 d", expected=True, computed=block == 12 * d * d + 13 * d),
        ),
        why=(
            "Attention has four d x d matrices (Q, K, V and the output): 4 x 768^2. The feed-forward network has two "
            f"of d x d_ff with d_ff = 4 d = {d_ff:,}: 8 x 768^2. Biases are 3 d + d + 4 d + d = 9 d and the two norms "
            "4 d: 13 d on top."
        ),
    )


def _exercise_3() -> Worked:
    rng = np.random.default_rng(0)
    T, d_k = 5, 4
    q_TK, k_TK = rng.standard_normal((T, d_k)), rng.standard_normal((T, d_k))
    pattern_TT = softmax(np.where(np.tril(np.ones((T, T), dtype=bool)), q_TK @ k_TK.T / math.sqrt(d_k), -math.inf))
    expected: tuple[tuple[float, ...], ...] = (
        (1.0,),
        (0.7614, 0.2386),
        (0.1959, 0.3042, 0.4999),
        (0.2099, 0.1217, 0.5310, 0.1374),
        (0.1364, 0.0638, 0.1244, 0.1882, 0.4872),
    )
    rows = tuple(
        Fact(what=f"row {t}", expected=row, computed=tuple(pattern_TT[t, : t + 1].tolist()), tolerance=5e-5)
        for t, row in enumerate(expected)
    )
    return Worked(
        question="Q and K are drawn from default_rng(0), T 5, d_k 4. How many positions does each row attend to?",
        answer="1, 2, 3, 4, 5: row t attends to itself and everything before.",
        facts=(
            Fact(
                what="attended positions",
                expected=(1, 2, 3, 4, 5),
                computed=tuple(int(seen) for seen in (pattern_TT > 0).sum(axis=-1)),
            ),
            Fact(
                what="row sums", expected=(1.0,) * T, computed=tuple(pattern_TT.sum(axis=-1).tolist()), tolerance=1e-12
            ),
            Fact(what="weight on the future", expected=0.0, computed=float(np.triu(pattern_TT, 1).sum())),
            *rows,
        ),
        why=(
            "Scores of the future become -inf before the softmax, and exp(-inf) is 0, so the weights of what remains "
            "sum to 1 by themselves. Row 0 can only look at itself, whatever Q and K are."
        ),
        grids=(
            Grid(
                title="The attention pattern",
                columns=("row", *(str(s) for s in range(T))),
                rows=tuple((str(t), *(f"{weight:.4f}" for weight in pattern_TT[t])) for t in range(T)),
            ),
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="exercise-1", lesson="B, exercise 1", title="the embedding, and what tying saves", run=_exercise_1),
    Example(name="exercise-2", lesson="B, exercise 2", title="attention against feed-forward", run=_exercise_2),
    Example(name="exercise-3", lesson="B, exercise 3", title="the causal pattern of default_rng(0)", run=_exercise_3),
)
