"""The curves of a plan as data: D/N of every rule over compute, and the U of the loss over size at one compute."""

from nextok.report.panels import Curve, Panel, Point
from nextok.scaling.budget import power
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN
from nextok.scaling.planned import Plan
from nextok.scaling.rules import Rule

_POINTS = 61
_RATIOS_SHOWN = (1.0, 1000.0)  # Kaplan's rule runs from ten thousand to a hundredth: it may leave the panel
_RATIO_DECADES = 4.0  # of compute, on each side of the budget
_LOSS_DECADES = 1.2  # of model size, on each side of the smallest loss: a factor of 16


def plan_panels(plan: Plan, rules: tuple[Rule, ...]) -> tuple[Panel, Panel]:
    """Returns both panels of a plan.

    Args:
        plan: The plan.
        rules: Those that it asked.
    """
    return ratio_panel(plan, rules), loss_panel(plan, rules)


def ratio_panel(plan: Plan, rules: tuple[Rule, ...]) -> Panel:
    """Returns tokens a parameter over compute, a curve a rule, with 80 % bands."""
    C = plan.chosen.flops
    compute = _spaced(C, _RATIO_DECADES)
    return Panel(
        title="where the rules part: tokens a parameter",
        x_label="training compute C = 6 N D (FLOP)",
        y_label="D / N",
        curves=[_ratio_curve(rule, compute, leading=rule.name == plan.chosen.rule) for rule in rules],
        points=[Point(x=C, y=plan.chosen.tokens_per_parameter, name=f"this plan ({plan.chosen.rule})")],
        mark_x=C,
        y_limits=_RATIOS_SHOWN,
    )


def loss_panel(plan: Plan, rules: tuple[Rule, ...]) -> Panel:
    """Returns how much worse than the best size every other is at the plan's compute, by every rule with a loss.

    The least loss itself is left out: it is about each rule's own text, and far from its runs it means nothing.
    """
    C = plan.chosen.flops
    units = sorted({rule.loss_unit for rule in rules if rule.predicts is not None})
    return Panel(
        title=f"at C = {power(C)} FLOP a model can be too small and too large",
        x_label="parameters N",
        y_label=f"loss above the least ({' or '.join(units)})",
        curves=[
            _loss_curve(rule, C, leading=rule.name == plan.chosen.rule) for rule in rules if rule.predicts is not None
        ],
        mark_x=plan.chosen.parameters,
        log_y=False,
    )


def _ratio_curve(rule: Rule, compute: list[float], *, leading: bool) -> Curve:
    splits = [(C, *rule.frontier.optimum(C)) for C in compute]
    ranges = None if rule.spread is None else [rule.spread.interval(N, C) for C, N, _ in splits]
    return Curve(
        name=rule.name,
        x=compute,
        y=[D / N for _, N, D in splits],
        low=None if ranges is None else [_ratio(C, high) for C, (_, high) in zip(compute, ranges, strict=True)],
        high=None if ranges is None else [_ratio(C, low) for C, (low, _) in zip(compute, ranges, strict=True)],
        leading=leading,
    )


def _loss_curve(rule: Rule, C: float, *, leading: bool) -> Curve:
    assert rule.predicts is not None, f"{rule.name} tells no loss"
    sizes = _spaced(rule.frontier.optimum(C)[0], _LOSS_DECADES)
    losses = [rule.predicts.loss(N, C / (FLOPS_PER_PARAMETER_AND_TOKEN * N)) for N in sizes]
    least = rule.predicts.loss(*rule.frontier.optimum(C))
    return Curve(name=rule.name, x=sizes, y=[loss - least for loss in losses], leading=leading)


def _ratio(C: float, N: float) -> float:
    return C / (FLOPS_PER_PARAMETER_AND_TOKEN * N**2)


def _spaced(middle: float, decades: float) -> list[float]:
    return [middle * 10 ** (decades * (2 * step / (_POINTS - 1) - 1)) for step in range(_POINTS)]
