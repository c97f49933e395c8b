"""`nextok plan`: what to train for a compute, time, money, data or size budget, by every published rule."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from nextok import units
from nextok.cli.options import parse
from nextok.files import to_json
from nextok.report import fact_table, make_console, table
from nextok.scaling import (
    COUNTINGS,
    Plan,
    PlannedModel,
    PlanOptions,
    Rule,
    RuleAnswer,
    all_rules,
    plan,
    power,
    read_fitted_law,
)

ABOUT = "Plan a training run: one budget to every scaling rule, a model that can be built, and what it costs."
_MEASURE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments(PlanOptions):
    """Options of the command."""

    fit: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    """Your own law, as nextok fit writes it; it is then the rule that is followed."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE.png")] = None
    """Draw tokens a parameter over compute by every rule, and loss over size at this compute."""
    sources: bool = False
    """Say where each rule comes from and what to know before using it."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="plan", about=ABOUT)
    console = make_console(sys.stderr if arguments.json else None)
    fit = None if arguments.fit is None else read_fitted_law(arguments.fit)
    measured = _measure(console) if arguments.budget.needs_measurement else None
    made = plan(arguments, fit=fit, measured_flops_per_s=measured)
    if arguments.plot is not None:
        _plot(made, all_rules(unique_tokens=made.unique_tokens, fit=fit), arguments.plot)
    if arguments.json:
        print(to_json(made.to_mapping(), indent=2))
    else:
        _print(made, console, sources=arguments.sources)
    return 0


def _measure(console: Console) -> float:
    """Returns this machine's matrix products a second in float32, which training is a share of."""
    from nextok.benchmark import matmul_flops_per_s

    console.print("Measuring this machine ...")
    flops_per_s = matmul_flops_per_s("fp32", seconds=_MEASURE_SECONDS)
    assert flops_per_s is not None, "NumPy multiplies in float32 everywhere"
    return flops_per_s


def _plot(made: Plan, rules: tuple[Rule, ...], path: Path) -> None:
    from nextok.report.scaling_plots import plot_panels
    from nextok.scaling.curves import plan_panels

    plot_panels(plan_panels(made, rules), path, title=f"Plan for {made.budget.description}")


def _print(made: Plan, console: Console, *, sources: bool) -> None:
    console.print(f"Budget: {made.budget.description}")
    for line in made.algebra:
        console.print(f"  {line}")
    console.print(table(_columns(made), [_row(answer, made) for answer in made.answers], title="What each rule says"))
    for line in _legend(made):
        console.print(line)
    if sources:
        rows = [(each.rule, "; ".join(part for part in (each.source, each.remark) if part)) for each in made.answers]
        console.print(fact_table("Sources", rows))
    if made.model is not None:
        title = f"A model for it, by {made.chosen.rule}"
        console.print(fact_table(title, [*_model_rows(made.model, made), *_cost_rows(made.model, made)]))
    for row in _tradeoff_rows(made):
        console.print(row)
    for note in made.notes:
        console.print(f"Note: {note}")


def _legend(made: Plan) -> list[str]:
    lines = [
        "* followed below. N parameters, D training tokens, C = 6 N D. 80 %: interval of N. outside: extrapolated by "
        "so many decades from the rule's nearest run."
    ]
    told = dict.fromkeys((each.loss_unit, each.loss_of) for each in made.answers if each.loss is not None)
    lines += [f"loss: {unit} on {text}; other text and other tokens have other losses." for unit, text in told]
    intervals = [(each, each.loss_interval) for each in made.answers if each.loss_interval is not None]
    lines += [f"{each.rule}: 80 % interval of its loss {low:.3f} to {high:.3f}." for each, (low, high) in intervals]
    for counting in COUNTINGS:
        rules = [each.rule for each in made.answers if each.counting == counting != made.chosen.counting]
        lines += [f"{', '.join(rules)}: N counts {counting} parameters there."] if rules else []
    return lines


def _columns(made: Plan) -> list[str]:
    middle = ["80 %"] if made.budget.given == "flops" else ["C"]
    return ["rule", "N", *middle, "D", "D/N", "loss", "outside"]


def _row(answer: RuleAnswer, made: Plan) -> tuple[object, ...]:
    middle = _range(answer.parameters_interval) if made.budget.given == "flops" else power(answer.flops)
    return (
        f"{answer.rule} *" if answer.rule == made.chosen.rule else answer.rule,
        units.format_count(answer.parameters),
        middle,
        units.format_count(answer.tokens),
        _three_digits(answer.tokens_per_parameter),
        None if answer.loss is None else f"{answer.loss:.3f}",
        f"{answer.extrapolated_decades:.1f}" if answer.extrapolated_decades >= 0.05 else None,
    )


def _model_rows(model: PlannedModel, made: Plan) -> list[tuple[str, str]]:
    config, counts = model.config, model.counts
    return [
        ("layers, width, heads", f"{config.n_layers}, {config.d_model:,}, {config.n_heads}"),
        ("context, vocabulary", f"{config.context:,}, {config.vocab_size:,}"),
        ("block", f"{config.norm}, {config.mlp}, {config.position}, head {'tied' if config.tied_head else 'untied'}"),
        (f"N ({model.counting})", f"{model.parameters:,}, {model.off_by:+.1%} from the rule's"),
        (
            "other counts",
            f"{counts.parameters:,} total, {counts.matmul_parameters:,} matmul, "
            f"{counts.non_embedding_parameters:,} non-embedding",
        ),
        ("tables and head", f"{model.embedding_share:.1%} of all parameters"),
    ]


def _cost_rows(model: PlannedModel, made: Plan) -> list[tuple[str, str]]:
    per_token = model.counts.training_flops_per_token
    rows = [
        ("training tokens", f"{model.tokens:,} ({_three_digits(model.tokens / model.parameters)} a parameter)"),
        ("FLOPs a token, exact", f"{power(per_token)} ({per_token / (6 * model.parameters):.2f} x 6 N)"),
        ("training, exact", f"{power(model.flops)} FLOP"),
        ("time", f"{_time(model.seconds)} {_devices(made)}"),
    ]
    if model.seconds_at_published_mfu is not None:
        fast, slow = (_time(seconds) for seconds in model.seconds_at_published_mfu)
        rows.append(("at MFU 0.43 to 0.14", f"{fast} to {slow}"))
    rows += [
        ("memory, one sequence at a time", units.format_bytes(model.memory_bytes)),
        ("checkpoint: weights", units.format_bytes(model.weight_bytes)),
        ("checkpoint: to resume", units.format_bytes(model.checkpoint_bytes)),
    ]
    if model.repetition is not None:
        repeated = model.repetition
        worth = (
            f"a token is worth {repeated.worth:.1%} of a fresh one" if repeated.epochs > 1 else "nothing is repeated"
        )
        rows.append(("epochs", f"{repeated.epochs:,.2f} over {repeated.unique_tokens:,} tokens: {worth}"))
    return rows


def _time(seconds: float) -> str:
    days = seconds / 86_400
    return f"{days:,.1f} days" if days > 2 else units.format_seconds(seconds)


def _devices(made: Plan) -> str:
    speed = made.budget.speed
    count = f"{made.budget.devices} x " if made.budget.devices > 1 else "one " if speed.device else ""
    return f"{'at' if speed.peak_flops_per_s is None else 'on'} {count}{speed.description}"


def _tradeoff_rows(made: Plan) -> list[object]:
    if not made.tradeoffs:
        return []
    rows: list[object] = []
    smaller = [(each.law, each.smaller) for each in made.tradeoffs if each.smaller is not None]
    served = [(each.law, each.served) for each in made.tradeoffs if each.served is not None]
    if smaller:
        title = f"The same loss with {smaller[0][1].parameters_factor:g} x N*"
        rows.append(
            table(
                ("law", "D / D*", "more compute", "no data suffices below"),
                [
                    (
                        law,
                        "never" if size.tokens_factor is None else f"x {size.tokens_factor:.2f}",
                        "never" if size.compute_overhead is None else f"{size.compute_overhead:+.1%}",
                        f"{size.smallest_factor:.2f} x N*",
                    )
                    for law, size in smaller
                ],
                title=title,
            )
        )
    if served:
        rows.append(
            table(
                ("law", "N", "N / N*", "D", "D / D*", "train + serve", "saved"),
                [
                    (
                        law,
                        units.format_count(size.parameters),
                        f"{size.parameters_factor:.2f}",
                        units.format_count(size.tokens),
                        f"{size.tokens_factor:.2f}",
                        f"{power(size.flops)} FLOP",
                        f"{size.saving:.1%}",
                    )
                    for law, size in served
                ],
                title="Cheapest to train and serve at the same loss",
            )
        )
    return rows


def _range(interval: tuple[float, float] | None) -> str | None:
    return None if interval is None else "-".join(units.format_count(end) for end in interval)


def _three_digits(value: float) -> str:
    if value >= 100_000:
        return units.format_count(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
