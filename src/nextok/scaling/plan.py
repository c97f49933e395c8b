"""`plan`: one budget to every named rule, a model that can be built, and what training it costs.

    from nextok.scaling import BudgetOptions, PlanOptions, plan
    made = plan(PlanOptions(budget=BudgetOptions(flops="1e20")))
    made.model.config, made.model.tokens, made.model.seconds

The rules spend C = 6 N D, as their papers do. The model is counted exactly: a budget of compute C gives it C / f
tokens, where f are its exact FLOPs a token, so that f times its tokens is the budget to the last token.
"""

import math
from dataclasses import dataclass, field

from nextok.config import unknown_name
from nextok.errors import ConfigError, InputError, ModelConfigError
from nextok.scaling.budget import Budget, BudgetOptions, power, settle
from nextok.scaling.buildable import Buildable, ModelOptions, build
from nextok.scaling.covered import Counting
from nextok.scaling.fitted import FittedLaw
from nextok.scaling.notes import notes_on
from nextok.scaling.planned import Plan, PlannedModel, Repetition, RuleAnswer, TradeOff
from nextok.scaling.published import MUENNIGHOFF_BASE, PUBLISHED_MFU
from nextok.scaling.repetition import RepeatedData
from nextok.scaling.rules import TWENTY, Rule, all_rules, parametric_laws
from nextok.scaling.tradeoffs import cheapest_served, other_size
from nextok.units import format_count, parse_count


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOptions:
    """What to plan for."""

    budget: BudgetOptions
    """The one thing that is given."""
    model: ModelOptions = field(default_factory=ModelOptions)
    """What is settled about the model."""
    rule: str | None = None
    """The rule that the model follows; none: own-fit where there is one, otherwise 20:1."""
    counting: Counting | None = None
    """What N counts: total, matmul (blocks and head), non-embedding; none: what the rule counts."""
    unique_tokens: int | str | None = None
    """Tokens of text that you have, such as 10M: adds the rule for repeated text, and what repetition is worth."""
    inference_tokens: int | str | None = None
    """Tokens the model will read and write in its lifetime, such as 2T: the size cheapest to train and serve."""
    smaller: float | None = None
    """A share of the optimal size, such as 0.5: what reaching the same loss with it costs."""

    def __post_init__(self) -> None:
        for name in ("unique_tokens", "inference_tokens"):
            value = getattr(self, name)
            if value is not None and parse_count(str(value)) < 1:
                raise ConfigError(f"--{name.replace('_', '-')} {value} is not above 0.")
        if self.smaller is not None and not 0 < self.smaller < math.inf:
            raise ConfigError(f"--smaller {self.smaller} is not a share above 0.")


def plan(options: PlanOptions, *, fit: FittedLaw | None = None, measured_flops_per_s: float | None = None) -> Plan:
    """Returns what the budget buys by every rule, and a model for it.

    Args:
        options: The budget and what is settled.
        fit: The law of the user's own runs.
        measured_flops_per_s: Matrix products a second on this machine; needed where `options.budget.needs_measurement`.

    Raises:
        ConfigError: for options that contradict each other or are out of range.
        InputError: if the vocabulary or context that is asked for leaves no model of that size.
    """
    budget = settle(options.budget, measured_flops_per_s)
    unique_tokens = None if options.unique_tokens is None else parse_count(str(options.unique_tokens))
    rules = all_rules(unique_tokens=unique_tokens, fit=fit)
    chosen = _choose(rules, options.rule)
    answers = {rule.name: _answer(rule, budget) for rule in rules}
    answer = answers[chosen.name]
    counting = options.counting or chosen.counting
    buildable, refusal = _buildable(answer.parameters, counting, options.model)
    model = None if buildable is None else _planned(buildable, answer, budget, unique_tokens)
    return Plan(
        budget=budget,
        unique_tokens=unique_tokens,
        answers=tuple(answers.values()),
        chosen=answer,
        model=model,
        tradeoffs=_tradeoffs(rules, answers, options),
        algebra=_algebra(budget, answers[TWENTY.name]),
        notes=(*notes_on(answer, model, counting), *refusal),
    )


def _choose(rules: tuple[Rule, ...], name: str | None) -> Rule:
    by_name = {rule.name: rule for rule in rules}
    if name is None:
        return by_name.get("own-fit", TWENTY)
    if name in by_name:
        return by_name[name]
    needs = {"muennighoff": "It needs --unique-tokens.", "own-fit": "It needs --fit FILE."}
    hint = needs.get(name) or unknown_name(name, by_name).hint.replace("Known names", "Rules")
    raise ConfigError(f"There is no rule {name!r} to follow.", hint)


def _answer(rule: Rule, budget: Budget) -> RuleAnswer:
    """Asks one rule: N and D of a compute, or the rest of what was given."""
    if budget.given == "parameters":
        N = budget.amount
        C = rule.frontier.compute_for_parameters(N)
        D = C / (6 * N)
    elif budget.given == "tokens":
        D = budget.amount
        C = rule.frontier.compute_for_tokens(D)
        N = C / (6 * D)
    else:
        C = budget.amount
        N, D = rule.frontier.optimum(C)
    outside = rule.covered.decades_outside(N=N, D=D, C=C)
    tells = rule.predicts is not None and (outside == 0 or rule.loss_interval is not None)
    return RuleAnswer(
        rule=rule.name,
        source=rule.source,
        counting=rule.counting,
        parameters=N,
        tokens=D,
        flops=C,
        parameters_interval=rule.spread.interval(N, C) if rule.spread and budget.given == "flops" else None,
        loss=rule.predicts.loss(N, D) if rule.predicts and tells else None,
        loss_interval=rule.loss_interval(N, D) if rule.loss_interval else None,
        loss_unit=rule.loss_unit,
        loss_of=rule.loss_of,
        extrapolated_decades=outside,
        remark=rule.remark,
    )


def _buildable(N: float, counting: Counting, options: ModelOptions) -> tuple[Buildable | None, list[str]]:
    """Returns the model, or why there is none; what the user asked of the model is refused instead."""
    try:
        return build(N, counting, options), []
    except ModelConfigError:
        raise  # no shape that we propose is refused: that would be our mistake
    except InputError as refusal:
        if options.vocab_size is not None or options.context is not None:
            raise
        return None, [str(refusal)]


def _planned(model: Buildable, answer: RuleAnswer, budget: Budget, unique_tokens: int | None) -> PlannedModel:
    per_token = model.counts.training_flops_per_token
    # a budget of compute is spent exactly; of tokens or parameters the rule's tokens stay and the compute follows
    tokens = round(budget.amount / per_token if budget.given == "flops" else answer.tokens)
    flops = float(per_token * tokens)
    speed = budget.speed
    peak = None if speed.device is None else speed.peak_flops_per_s
    return PlannedModel(
        config=model.config,
        counts=model.counts,
        counting=model.counting,
        parameters=model.N,
        off_by=model.off_by,
        embedding_share=model.embedding_share,
        tokens=tokens,
        flops=flops,
        seconds=budget.seconds(flops),
        seconds_at_published_mfu=None
        if peak is None
        else (flops / (peak * PUBLISHED_MFU[1] * budget.devices), flops / (peak * PUBLISHED_MFU[0] * budget.devices)),
        memory_bytes=model.counts.training_memory_bytes(model.config.context),
        weight_bytes=model.counts.weight_bytes,
        checkpoint_bytes=3 * model.counts.weight_bytes,
        repetition=None if unique_tokens is None else _repetition(tokens, unique_tokens),
    )


def _repetition(tokens: int, unique_tokens: int) -> Repetition:
    law = RepeatedData(base=MUENNIGHOFF_BASE, unique_tokens=unique_tokens)
    epochs = tokens / unique_tokens
    return Repetition(
        unique_tokens=unique_tokens,
        epochs=epochs,
        worth=law.worth(epochs),
        effective_tokens=law.effective_tokens(tokens),
    )


def _tradeoffs(rules: tuple[Rule, ...], answers: dict[str, RuleAnswer], options: PlanOptions) -> tuple[TradeOff, ...]:
    if options.smaller is None and options.inference_tokens is None:
        return ()
    served = None if options.inference_tokens is None else float(parse_count(str(options.inference_tokens)))
    return tuple(
        TradeOff(
            law=name,
            smaller=None if options.smaller is None else other_size(law, options.smaller),
            served=None if served is None else cheapest_served(law, answers[name].flops, served),
        )
        for name, law in parametric_laws(rules).items()
    )


def _algebra(budget: Budget, answer: RuleAnswer) -> tuple[str, ...]:
    N, D, C = format_count(answer.parameters), format_count(answer.tokens), power(answer.flops)
    start = "C = 6 N D and D = 20 N give C = 6 x 20 N^2 = 120 N^2."
    if budget.given == "parameters":
        return start, f"D* = 20 N = 20 x {N} = {D}", f"C = 120 N^2 = 120 x {N}^2 = {C} FLOP"
    if budget.given == "tokens":
        return start, f"N* = D / 20 = {D} / 20 = {N}", f"C = 6 N* D = 6 x {N} x {D} = {C} FLOP"
    return start, f"N* = sqrt(C / 120) = sqrt({C} / 120) = {N}", f"D* = 20 N* = sqrt(10 C / 3) = {D}"
