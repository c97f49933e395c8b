"""How much data for how many parameters: Chinchilla's rule with its algebra, and what it leaves open.

N parameters, D training tokens, C training FLOP. Source: Hoffmann et al. 2022 (arXiv 2203.15556).
"""

import math

from nextok.lessons.training import lesson_run
from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.spec import count, preset_config
from nextok.units import format_flops

TOKENS_PER_PARAMETER = 20.0
"""Approaches 1 and 2 of the paper, and the 70B model it trained; approach 3 gives other numbers."""

# Loss in nats a token of the paper's approach 3, with the constants as printed (rounded) there.
_E, _A, _B, _ALPHA, _BETA = 1.69, 406.4, 410.7, 0.34, 0.28
_GOPHER_FLOP = 5.76e23


def compute_optimal(flop: float) -> tuple[float, float]:
    """Returns N* = sqrt(C/120) and D* = 20 N*, from C = 6 N D and D = 20 N."""
    parameters = math.sqrt(flop / (6 * TOKENS_PER_PARAMETER))
    return parameters, TOKENS_PER_PARAMETER * parameters


def tokens_and_flop(parameters: float) -> tuple[float, float]:
    """Returns D = 20 N and C = 6 N D for a model of N parameters."""
    tokens = TOKENS_PER_PARAMETER * parameters
    return tokens, 6 * parameters * tokens


def parametric_loss(parameters: float, tokens: float) -> float:
    """Returns L(N, D) = E + A / N^alpha + B / D^beta in nats a token."""
    return _E + _A / parameters**_ALPHA + _B / tokens**_BETA


def parametric_optimal(flop: float) -> tuple[float, float]:
    """Returns the N and D of least parametric loss at C = 6 N D."""
    scale = (_ALPHA * _A / (_BETA * _B)) ** (1 / (_ALPHA + _BETA))
    parameters = scale * (flop / 6) ** (_BETA / (_ALPHA + _BETA))
    return parameters, flop / (6 * parameters)


def _three_digits(count: float) -> str:
    """Returns the count as the lesson writes it: 91.3k, 913M, 1.40T."""
    for limit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            value = count / limit
            return f"{value:.{2 - math.floor(math.log10(value))}f}{letter}"
    return f"{count:.0f}"


def _flop(flop: float) -> str:
    """Returns FLOP as the lesson writes them: 1.37e12."""
    return f"{flop:.2e}".replace("e+", "e")


def _rule() -> Worked:
    answers = {
        1e12: "91.3k, 1.83M",
        1e15: "2.89M, 57.7M",
        1e18: "91.3M, 1.83B",
        1e20: "913M, 18.3B",
        1e21: "2.89B, 57.7B",
        5.88e23: "70.0B, 1.40T",
    }
    facts = [
        Fact(
            what=f"N*, D* at C = {flop:g}".replace("e+", "e"),
            expected=answer,
            computed=", ".join(_three_digits(number) for number in compute_optimal(flop)),
        )
        for flop, answer in answers.items()
    ]
    n_star, d_star = compute_optimal(1e21)
    return Worked(
        question="C = 1e21 FLOP, 20 tokens a parameter: how many parameters and how many tokens?",
        answer="N* = sqrt(C/120) = 2.89B parameters, D* = 20 N* = 57.7B tokens.",
        facts=(
            *facts,
            Fact(what="6 N* D* / C", expected=1.0, computed=6 * n_star * d_star / 1e21, tolerance=1e-12),
            Fact(what="D* / sqrt(10 C/3)", expected=1.0, computed=d_star / math.sqrt(1e22 / 3), tolerance=1e-12),
            Fact(what="tokens a parameter by the rule", expected=20.0, computed=d_star / n_star, tolerance=1e-9),
        ),
        why=(
            "C = 6 N D with D = 20 N is C = 120 N^2, so N* = sqrt(C/120) and D* = 20 N* = sqrt(10 C/3). Both grow with "
            "the root of C: a hundred times the compute buys ten times the parameters and ten times the tokens."
        ),
        corrections=(
            "Printed: Hoffman et al. Right: Hoffmann et al.",
            "Printed: N* = D* ~ sqrt(C/6). Right: they are not equal; N* = sqrt(C/120), D* = 20 N* = sqrt(10 C/3). The "
            "printed form means one token a parameter.",
        ),
    )


def _for_a_model() -> Worked:
    sizes = {
        "TinyGPT": count(preset_config("lesson-a")).parameters,
        "GPT-2 small": count(preset_config("gpt2")).parameters,
        "GPT-2 XL": count(preset_config("gpt2-xl")).parameters,
        "1B": 10**9,
        "70B": 70 * 10**9,
    }
    answers = {
        "TinyGPT": "2.14M, 1.37e12",
        "GPT-2 small": "2.49B, 1.86e18",
        "GPT-2 XL": "31.2B, 2.91e20",
        "1B": "20.0B, 1.20e20",
        "70B": "1.40T, 5.88e23",
    }
    facts = [
        Fact(what=f"{name}: D, C", expected=answer, computed=_tokens_and_flop(sizes[name]))
        for name, answer in answers.items()
    ]
    run = lesson_run()
    targets = len(run.losses) * run.window_BT[:, 1:].numel()
    tiny = sizes["TinyGPT"]
    return Worked(
        question="A model of 1B parameters: how many tokens by Chinchilla's rule, and what does training cost?",
        answer="20B tokens, 6 x 1e9 x 20e9 = 1.2e20 FLOP.",
        facts=(
            *facts,
            Fact(what="targets in lesson A's 20 steps", expected=1_120, computed=targets),
            Fact(what="D/N of lesson A's run", expected=0.0105, computed=targets / tiny, tolerance=5e-5),
            Fact(what="its FLOP, 6 N D", expected=7.2e8, computed=float(6 * tiny * targets), tolerance=5e6),
        ),
        why=(
            "D = 20 N, C = 6 N D = 120 N^2. Lesson A's 20 steps see 0.01 tokens a parameter, two thousand times less "
            "than the rule asks: enough to memorise eight rows, not to learn a language."
        ),
        grids=(
            Grid(
                title="What the rule asks of a model",
                columns=("model", "N", "D", "C, FLOP"),
                rows=tuple((name, _three_digits(n), *_tokens_and_flop(n).split(", ")) for name, n in sizes.items()),
            ),
        ),
    )


def _tokens_and_flop(parameters: float) -> str:
    tokens, flop = tokens_and_flop(parameters)
    return f"{_three_digits(tokens)}, {_flop(flop)}"


def _which_n() -> Worked:
    tiny, small = count(preset_config("lesson-a")), count(preset_config("gpt2"))

    def exact_above_6n(name: str) -> float:
        counts = count(preset_config(name))
        return 100 * (counts.training_flops_per_token / counts.training_flops_per_token_6n - 1)

    return Worked(
        question="C = 6 N D: which N, and how far is it from the exact count for TinyGPT and for GPT-2 small?",
        answer="All parameters here; the exact count is 3 % less for TinyGPT and 14 % more for GPT-2 small.",
        facts=(
            Fact(what="TinyGPT, exact, FLOP a token", expected=621_312, computed=tiny.training_flops_per_token),
            Fact(what="TinyGPT, 6 N", expected=642_048, computed=tiny.training_flops_per_token_6n),
            Fact(what="TinyGPT: matmul parameters", expected=101_504, computed=tiny.matmul_parameters),
            Fact(
                what="exact against 6 N, TinyGPT, %", expected=-3.2, computed=exact_above_6n("lesson-a"), tolerance=0.05
            ),
            Fact(
                what="exact against 6 N, GPT-2 small, %", expected=14.4, computed=exact_above_6n("gpt2"), tolerance=0.05
            ),
            Fact(
                what="GPT-2 small: total, without tables",
                expected=(124_439_808, 85_056_000),
                computed=(small.parameters, small.non_embedding_parameters),
            ),
        ),
        why=(
            "Every weight of a matrix product costs 2 FLOP forward and 4 backward, which makes 6 N. Table look-ups, "
            "norms and biases cost next to nothing, so 6 N counts too much in a small model; scores and mixing have no "
            "weights, so it counts too little where the context is long."
        ),
        grids=(
            Grid(
                title="Training FLOP a token",
                columns=("model", "exact", "6 N", "difference"),
                rows=tuple(
                    (
                        name,
                        format_flops(count(preset_config(name)).training_flops_per_token),
                        format_flops(count(preset_config(name)).training_flops_per_token_6n),
                        f"{exact_above_6n(name):+.1f} %",
                    )
                    for name in ("lesson-a", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
                ),
            ),
        ),
        corrections=(
            "Printed: C = 6 N D, without saying which N. Right: name it; by all parameters TinyGPT comes to 642,048 "
            "FLOP a token against 621,312 exact (-3 %), GPT-2 small is +14 %.",
        ),
    )


def _u_shape() -> Worked:
    flop = 1e20
    best, _ = parametric_optimal(flop)
    factors = (1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0)
    losses = [parametric_loss(best * factor, flop / (6 * best * factor)) for factor in factors]
    least = losses.index(min(losses))
    gopher_n, gopher_d = parametric_optimal(_GOPHER_FLOP)
    return Worked(
        question="At a fixed compute of 1e20 FLOP, does a smaller model with more data always do better?",
        answer="No: the loss is U-shaped in log N, and past the optimum more data loses.",
        facts=(
            Fact(what="N of least loss, parametric law", expected="645M", computed=_three_digits(best)),
            Fact(what="D/N there", expected=40.1, computed=parametric_optimal(flop)[1] / best, tolerance=0.05),
            Fact(what="the least of the grid is there", expected=1.0, computed=factors[least]),
            Fact(what="falls up to it", expected=True, computed=losses[:least] == sorted(losses[:least], reverse=True)),
            Fact(what="rises after it", expected=True, computed=losses[least:] == sorted(losses[least:])),
            Fact(what="D/N at Gopher's 5.76e23 FLOP", expected=92.6, computed=gopher_d / gopher_n, tolerance=0.05),
            Fact(what="N at Gopher's compute", expected="32.2B", computed=_three_digits(gopher_n)),
        ),
        why=(
            "L(N, D) = 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28 (Hoffmann et al. 2022, approach 3, constants as "
            "printed). With N D fixed, a small model is starved of parameters and a large one of data, and the sum of "
            "the two terms has one minimum. This law puts it at other ratios than 20 : 1, and at 93 for Gopher's "
            "compute: say which rule an answer comes from."
        ),
        grids=(
            Grid(
                title="Parametric law at C = 1e20",
                columns=("N", "D", "D/N", "loss"),
                rows=tuple(
                    (
                        _three_digits(best * factor),
                        _three_digits(flop / (6 * best * factor)),
                        f"{flop / (6 * (best * factor) ** 2):.3g}",
                        f"{loss:.4f}",
                    )
                    for factor, loss in zip(factors, losses, strict=True)
                ),
            ),
        ),
        corrections=(
            "Printed: one law, D = 20 N. Right: so say approaches 1 and 2 only; the parametric fit with its printed "
            "constants gives 93 tokens a parameter at Gopher's compute.",
            "Printed: more data beats more parameters at fixed compute. Right: the loss is U-shaped in log N; past the "
            "optimum more data loses.",
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="chinchilla", lesson="A, slides 24, 46-47", title="N* and D* from compute", run=_rule),
    Example(name="chinchilla-models", lesson="A, slides 46-47", title="D and C from N", run=_for_a_model),
    Example(name="which-n", lesson="A, slide 24", title="6 N D against the exact count", run=_which_n),
    Example(name="u-shape", lesson="A, slide 40", title="more data, or more parameters", run=_u_shape),
)
