"""The named rules a plan compares, each with what it was fitted to, what its N counts, and what it cannot say."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nextok.scaling import published
from nextok.scaling.covered import Counting, Covered
from nextok.scaling.fitted import FittedLaw
from nextok.scaling.frontiers import Frontier, Power, Ratio, Table
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.repetition import RepeatedData

_MASSIVE_TEXT = "MassiveText, 32,000 pieces"


class Spread(Protocol):
    """What tells the interval of N."""

    def interval(self, N: float, C: float) -> tuple[float, float]:
        """Returns the low and high N at this C, where the rule says N."""
        ...


class Loss(Protocol):
    """What tells a loss."""

    def loss(self, N: float, D: float) -> float:
        """Returns the loss of N parameters after D tokens."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One answer to how a budget is split, under the name it is known by."""

    name: str
    """As `--rule` takes it."""
    source: str
    """Paper and year, and which of its rules."""
    frontier: Frontier
    """The split itself."""
    counting: Counting
    """What N counts there."""
    covered: Covered
    """Where its runs lie."""
    spread: Spread | None = None
    """Interval of N; None where the source gives no usable one."""
    predicts: Loss | None = None
    """Its loss; None where it has none."""
    loss_of: str = ""
    """The text and vocabulary that loss is about."""
    loss_interval: Callable[[float, float], tuple[float, float] | None] | None = None
    """Interval of the loss at N, D."""
    loss_unit: str = "nats/token"
    remark: str = ""
    """What a reader must know before using it."""


TWENTY = Rule(
    name="20:1",
    source="Hoffmann et al. 2022: D = 20 N, as the 70B model",
    frontier=Ratio(ratio=published.CHINCHILLA_TOKENS_PER_PARAMETER),
    counting="total",
    covered=published.CHINCHILLA_RUNS,
    remark="a rule of thumb for approaches 1 and 2; approach 3 is another rule, whose D/N rises with C",
)

CHINCHILLA_1 = Rule(
    name="chinchilla-1",
    source="Hoffmann et al. 2022, approach 1: envelope of training curves, table 3",
    frontier=Table(rows=tuple((N, C) for N, C, _ in published.CHINCHILLA_TABLE_3)),
    counting="total",
    covered=published.CHINCHILLA_RUNS,
    spread=published.CHINCHILLA_1_SPREAD,
    remark="between the table's rows by straight lines in log N and log C; the interval is the exponent's alone",
)

CHINCHILLA_2 = Rule(
    name="chinchilla-2",
    source="Hoffmann et al. 2022, approach 2: IsoFLOP parabolas, table A3",
    frontier=Table(rows=tuple((N, C) for N, C, *_ in published.CHINCHILLA_TABLE_A3)),
    counting="total",
    covered=published.ISOFLOP_RUNS,
    spread=published.CHINCHILLA_2_SPREAD,
    remark=CHINCHILLA_1.remark,
)

CHINCHILLA_3 = Rule(
    name="chinchilla-3",
    source="Hoffmann et al. 2022, approach 3: parametric fit, unrounded constants",
    frontier=published.CHINCHILLA_3,
    counting="total",
    covered=published.CHINCHILLA_RUNS,
    predicts=published.CHINCHILLA_3,
    loss_of=_MASSIVE_TEXT,
    remark="comes within 20 % of the tokens in the paper's table A3, which no published constants reproduce exactly",
)

CHINCHILLA_3_PRINTED = Rule(
    name="chinchilla-3-printed",
    source="Hoffmann et al. 2022, approach 3: constants as printed",
    frontier=published.CHINCHILLA_3_PRINTED,
    counting="total",
    covered=published.CHINCHILLA_RUNS,
    predicts=published.CHINCHILLA_3_PRINTED,
    loss_of=_MASSIVE_TEXT,
    remark="to compare with, not to use: rounding alone makes D up to twice what table A3 says",
)

BESIROGLU = Rule(
    name="besiroglu",
    source="Besiroglu et al. 2024: approach 3 refitted to the same runs",
    frontier=published.BESIROGLU,
    counting="total",
    covered=published.CHINCHILLA_RUNS,
    spread=published.BESIROGLU_SPREAD,
    predicts=published.BESIROGLU,
    loss_of=_MASSIVE_TEXT,
    remark="the refit agrees with approaches 1 and 2, and with 20:1 where the runs lie",
)

KAPLAN = Rule(
    name="kaplan",
    source="Kaplan et al. 2020: N = 1.3e9 (C / PF-day)^0.73",
    frontier=Power(scale=published.KAPLAN_PARAMETERS, unit=published.PETAFLOP_DAY, a=published.KAPLAN_A),
    counting="non-embedding",
    covered=published.KAPLAN_RUNS,
    remark=(
        "to compare with, not to use: N without embeddings, head FLOPs left out and one warm-up for all sizes made "
        "large models look too good"
    ),
)

PUBLISHED = (TWENTY, CHINCHILLA_1, CHINCHILLA_2, CHINCHILLA_3, CHINCHILLA_3_PRINTED, BESIROGLU, KAPLAN)


def muennighoff(unique_tokens: float) -> Rule:
    """Returns the data-constrained rule for this much text."""
    law = RepeatedData(base=published.MUENNIGHOFF_BASE, unique_tokens=unique_tokens)
    return Rule(
        name="muennighoff",
        source="Muennighoff et al. 2023: Chinchilla's law for repeated text",
        frontier=law,
        counting="total",
        covered=published.MUENNIGHOFF_RUNS,
        predicts=law,
        loss_of="C4, GPT-2's pieces",
        remark=(
            "fitted with dropout and weight decay, and never worse with more epochs; a small model on a small text "
            "without them over-fits"
        ),
    )


def own_fit(fit: FittedLaw) -> Rule:
    """Returns the rule of a law fitted to runs of one's own."""
    return Rule(
        name="own-fit",
        source=f"your fit to {fit.runs} runs",
        frontier=fit.law,
        counting=fit.counting,
        covered=fit.covered,
        spread=_FitSpread(fit=fit) if fit.draws else None,
        predicts=fit.law,
        loss_of=", ".join(part for part in (fit.corpus, fit.tokenizer) if part) or "your text and tokenizer",
        loss_interval=lambda N, D: fit.interval(lambda law: law.loss(N, D)),
        loss_unit=fit.loss_unit,
        remark="" if fit.draws else "the file holds no draws, so there is no interval",
    )


def all_rules(*, unique_tokens: float | None = None, fit: FittedLaw | None = None) -> tuple[Rule, ...]:
    """Returns every rule that can be asked: the published ones, and those that need the user's text or fit."""
    constrained = (muennighoff(unique_tokens),) if unique_tokens is not None else ()
    own = (own_fit(fit),) if fit is not None else ()
    *first, last = PUBLISHED
    return (*own, *first, *constrained, last)


def parametric_laws(rules: tuple[Rule, ...]) -> dict[str, ParametricLaw]:
    """Returns the laws among the rules that say what another size of model costs, by name."""
    wanted = ("own-fit", "chinchilla-3", "besiroglu")
    return {
        rule.name: rule.frontier for rule in rules if rule.name in wanted and isinstance(rule.frontier, ParametricLaw)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _FitSpread:
    """The interval of N over the draws of a fit."""

    fit: FittedLaw

    def interval(self, N: float, C: float) -> tuple[float, float]:
        found = self.fit.interval(lambda law: law.optimum(C)[0])
        assert found is not None, "a fit without draws has no spread"
        return found
