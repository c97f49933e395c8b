"""Lesson B: its NumPy page run by `nextok.reference`, every variant of its loss, and where the page stops working."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nextok.errors import InputError
from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.reference import DIALECTS, Dialect, forward, lesson_b, logits, next_token_loss
from nextok.reference.ops import Array, layer_norm, log_softmax, softmax
from nextok.spec import ModelConfig

IDS = (5, 12, 3, 99, 44, 7)
PAGE = DIALECTS["lesson-b"]
_SEEDS = 200


def windows(ids: tuple[int, ...] = IDS) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns inputs and the tokens after them, one sequence: n tokens give n - 1 targets."""
    ids_1T = np.array([ids], dtype=np.int64)
    return ids_1T[:, :-1], ids_1T[:, 1:]


def page_loss(config: ModelConfig, weights: Mapping[str, Array], dialect: Dialect = PAGE) -> float:
    """Returns the page's loss of these weights in nats."""
    inputs_1T, targets_1T = windows()
    return next_token_loss(logits(config, weights, inputs_1T, dialect), targets_1T)


def _with_heads(config: ModelConfig, n_heads: int) -> ModelConfig:
    return replace(config, n_heads=n_heads, n_kv_heads=n_heads, d_head=config.d_model // n_heads)


def _numpy_loss() -> Worked:
    config, weights = lesson_b()
    inputs_1T, targets_1T = windows()
    logits_1TV = logits(config, weights, inputs_1T, PAGE)
    each = tuple(
        next_token_loss(logits_1TV[:, t : t + 1], targets_1T[:, t : t + 1]) for t in range(targets_1T.shape[1])
    )
    loss = next_token_loss(logits_1TV, targets_1T)
    return Worked(
        question=(
            "V = 100, nothing is trained: what is the loss on 5, 12, 3, 99, 44, 7, and how many parameters are there?"
        ),
        answer="4.6551, within 0.1 of ln 100 = 4.6052; 30,144 parameters.",
        facts=(
            Fact(what="loss, nats per token", expected=4.6550573, computed=loss, tolerance=5e-8),
            Fact(what="ln V", expected=4.6052, computed=math.log(config.vocab_size), tolerance=5e-5),
            Fact(what="within 0.1 of ln V", expected=True, computed=abs(loss - math.log(config.vocab_size)) < 0.1),
            Fact(what="parameters", expected=30_144, computed=sum(weight.size for weight in weights.values())),
            Fact(what="targets of 6 tokens", expected=5, computed=targets_1T.size),
            Fact(
                what="loss of each target",
                expected=(4.5498, 4.6631, 4.5609, 4.6615, 4.84),
                computed=each,
                tolerance=5e-5,
            ),
        ),
        why=(
            "A model that knows nothing gives every token about 1/V, which costs ln V. Its small random weights make "
            "it prefer some tokens a little, for no reason, so the loss lies in a band around ln V and not on it. The "
            "mean runs over five targets, because the sixth token has no successor."
        ),
        corrections=(
            "Printed: four heads are passed, ReLU, no biases, as if this were GPT-2. Right: the page uses one head of "
            "full width and never reads the number; GPT-2 has 12 real heads, the tanh GELU and biases.",
        ),
    )


def _variants() -> dict[str, tuple[float, Callable[[], float]]]:
    """The lesson's model with one thing changed: expected loss, and how to compute it."""
    config, weights = lesson_b()
    heads = _with_heads(config, 4)
    inside, minus_infinity = replace(PAGE, eps_outside=False), replace(PAGE, masked_score=-math.inf)
    return {
        "as printed": (4.6550573, lambda: page_loss(config, weights)),
        "eps inside the root": (4.6545796, lambda: page_loss(config, weights, inside)),
        "4 real heads": (4.6550930, lambda: page_loss(heads, weights)),
        "-inf as mask": (4.6550573, lambda: page_loss(config, weights, minus_infinity)),
        "erf GELU": (4.6042756, lambda: page_loss(replace(config, mlp="gelu"), weights)),
        "tanh GELU": (4.6042753, lambda: page_loss(replace(config, mlp="gelu_tanh"), weights)),
        "eps inside, 4 heads, erf GELU": (4.6042835, lambda: page_loss(replace(heads, mlp="gelu"), weights, inside)),
    }


def _numpy_variants() -> Worked:
    facts = tuple(
        Fact(what=name, expected=expected, computed=compute(), tolerance=5e-8)
        for name, (expected, compute) in _variants().items()
    )
    return Worked(
        question="Of eps inside the root, 4 real heads, -inf for -1e9 and GELU for ReLU: which moves the loss most?",
        answer="The activation, by 0.05; eps moves the fourth decimal, heads the fifth, and -inf nothing.",
        facts=facts,
        why=(
            "All inputs lie near 0, where GELU is about x/2 for either sign and ReLU is 0 or x. Four heads split the "
            "same matrices, so the count stays and only the softmax sees other scores, all near 0. "
            "exp(-1e9) is exactly 0 in floating point, so -1e9 and -inf mask alike."
        ),
        grids=(
            Grid(
                title="The loss, one thing changed",
                columns=("change", "loss"),
                rows=tuple((fact.what, f"{fact.computed:.7f}") for fact in facts),
            ),
        ),
        corrections=(
            "Printed: softmax(scores + mask) with four heads passed. Right: one head is used; with four real ones the "
            "loss is 4.6550930.",
        ),
    )


def _numpy_seeds() -> Worked:
    losses = np.array([page_loss(*lesson_b(seed)) for seed in range(_SEEDS)])
    return Worked(
        question='"Untrained, the loss should be close to log V": how close, over 200 seeds?',
        answer="4.616 +- 0.048 against ln 100 = 4.6052: within about 0.1, not equal.",
        facts=(
            Fact(
                what=f"mean over seeds 0 to {_SEEDS - 1}", expected=4.616, computed=float(losses.mean()), tolerance=5e-4
            ),
            Fact(what="standard deviation", expected=0.048, computed=float(losses.std()), tolerance=5e-4),
            Fact(what="mean above ln V", expected=True, computed=bool(losses.mean() > math.log(100))),
        ),
        why=(
            "Five targets are few: each seed favours or disfavours them by chance, and their mean scatters by 0.05. On "
            "average the loss lies above ln V, because -log is curved: what a favoured target gains is less than what "
            "a disfavoured one loses. State the band, not the point."
        ),
    )


def _layer_norm_eps() -> Worked:
    small, large = np.array([1e-3, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])

    def first(x: Array, eps: float, *, outside: bool) -> float:
        return float(layer_norm(x, np.ones(4), 0.0, eps, eps_outside=outside)[0])

    config, weights = lesson_b()
    std = forward(config, weights, windows()[0], PAGE)["embed"].std(axis=-1)
    percent = 100 * (np.sqrt(std**2 + config.norm_eps) / std - 1)
    biased = first(large, config.norm_eps, outside=False)
    unbiased = float((large - large.mean())[0] / large.std(ddof=1))
    return Worked(
        question="LayerNorm of [0.001, 0, 0, 0] with eps 1e-5: the first value with eps inside the root, and outside?",
        answer="0.2350 inside, 1.6930 outside: seven times as much, because eps is larger than the variance.",
        facts=(
            Fact(what="eps inside", expected=0.2350, computed=first(small, 1e-5, outside=False), tolerance=5e-5),
            Fact(what="eps outside", expected=1.6930, computed=first(small, 1e-5, outside=True), tolerance=5e-5),
            Fact(what="[1, 0, 0, 0], biased variance", expected=1.7320, computed=biased, tolerance=5e-5),
            Fact(what="[1, 0, 0, 0], unbiased variance", expected=1.5, computed=unbiased, tolerance=5e-5),
            Fact(what="deviation of a row of tok + pos", expected=0.03, computed=float(std.mean()), tolerance=5e-3),
            Fact(
                what="sqrt(var + eps) above std, % (least, most)",
                expected=(0.5, 0.8),
                computed=(float(percent.min()), float(percent.max())),
                tolerance=0.05,
            ),
        ),
        why=(
            "The variance of the small vector is 1.9e-7. Inside the root, eps = 1e-5 swamps it and the output stays "
            "small; outside, 1e-5 is added to a deviation of 4.3e-4 and hardly shows. Rows of the page's embeddings "
            "deviate by 0.03, so the two norms differ by 0.5 to 0.8 % there. The variance divides by D, not by D - 1."
        ),
        corrections=(
            "Printed: (x - mean) / (std + eps). Right: (x - mean) / sqrt(var + eps) with the biased variance.",
        ),
    )


def _log_of_softmax() -> Worked:
    logits_V = np.array([1000.0, 0.0, -1000.0])
    with np.errstate(divide="ignore"):
        naive = float(np.log(softmax(logits_V))[1])
    safe = float(log_softmax(logits_V)[1])
    return Worked(
        question="Logits 1000, 0, -1000: what is log(softmax) of the second, and what is log-softmax?",
        answer="-inf by log(softmax), -1000 by log-softmax, which is right.",
        facts=(
            Fact(what="log(softmax)", expected=-math.inf, computed=naive),
            Fact(what="log-softmax", expected=-1000.0, computed=safe, tolerance=1e-9),
            Fact(
                what="equal at small logits",
                expected=True,
                computed=bool(np.allclose(np.log(softmax(logits_V / 1000)), log_softmax(logits_V / 1000), atol=1e-12)),
            ),
        ),
        why=(
            "exp(-1000) is 0 in floating point, and the log of 0 is -inf: one such target makes the loss infinite and "
            "its gradient useless. x - max - log(sum(exp(x - max))) never takes the log of that 0."
        ),
        corrections=(
            "Printed: log(softmax(logits)). Right: log-softmax in one step; the printed form is -inf at large logits.",
        ),
    )


def _numpy_limits() -> Worked:
    config, weights = lesson_b()
    tokens, positions = weights["embed.tokens.weight"], weights["embed.positions.weight"]

    def ours(T: int) -> str:
        return _outcome(lambda: logits(config, weights, np.zeros((1, T), dtype=np.int64), PAGE))

    return Worked(
        question="The position table has 64 rows. What happens with 65 tokens, and with a sequence of one?",
        answer="65 do not fit the table, a shape error; one token leaves no input, an error in an empty reduction.",
        facts=(
            Fact(what="64 tokens", expected="done", computed=ours(64)),
            Fact(
                what="65 tokens, as on the page",
                expected="ValueError",
                computed=_outcome(lambda: tokens[[0] * 65] + positions[:65]),
            ),
            Fact(what="65 tokens, here", expected="InputError", computed=ours(65)),
            Fact(what="inputs of a sequence of one", expected=0, computed=windows((5,))[0].size),
            Fact(
                what="its scores, as on the page",
                expected="ValueError",
                computed=_outcome(lambda: np.zeros((0, 0)).max(axis=-1)),
            ),
            Fact(what="no inputs, here", expected="InputError", computed=ours(0)),
        ),
        why=(
            "A learned position has a row or it does not exist: rows 0 to 63 cannot be added to 65 tokens. With one "
            "token there is no next one to predict, the scores are a 0 x 0 matrix, and a maximum over nothing has no "
            "value. Both are checked first here, so that the message names the lengths."
        ),
    )


def _outcome(compute: Callable[[], object]) -> str:
    try:
        compute()
    except (ValueError, InputError) as error:
        return type(error).__name__
    return "done"


EXAMPLES: tuple[Example, ...] = (
    Example(name="numpy-loss", lesson="B", title="the NumPy page's loss and count", run=_numpy_loss),
    Example(name="numpy-variants", lesson="B", title="the loss with one thing changed", run=_numpy_variants),
    Example(name="numpy-seeds", lesson="B", title="how close to log V", run=_numpy_seeds),
    Example(name="numpy-limits", lesson="B", title="65 tokens, and one", run=_numpy_limits),
    Example(name="layernorm-eps", lesson="B", title="eps inside or outside the root", run=_layer_norm_eps),
    Example(name="log-softmax", lesson="B", title="log(softmax) against log-softmax", run=_log_of_softmax),
)
