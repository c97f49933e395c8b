"""The curves of a plan say what its table says."""

import pytest

from nextok.scaling import BudgetOptions, PlanOptions, all_rules, plan
from nextok.scaling.curves import loss_panel, plan_panels, ratio_panel
from nextok.scaling.published import CHINCHILLA_3

PLAN = plan(PlanOptions(budget=BudgetOptions(flops="1e20"), unique_tokens="1B"))
RULES = all_rules(unique_tokens=1e9)


def test_a_curve_a_rule_that_passes_through_its_answer() -> None:
    panel = ratio_panel(PLAN, RULES)
    for curve, answer in zip(panel.curves, PLAN.answers, strict=True):
        middle = len(curve.x) // 2
        assert curve.name == answer.rule
        assert curve.x[middle] == pytest.approx(1e20)
        assert curve.y[middle] == pytest.approx(answer.tokens_per_parameter)
        if answer.ratio_interval is not None:
            assert curve.low is not None and curve.high is not None
            assert (curve.low[middle], curve.high[middle]) == pytest.approx(answer.ratio_interval)
    assert [curve.name for curve in panel.curves if curve.leading] == ["20:1"]


def test_the_loss_is_a_u_with_its_least_at_the_optimum() -> None:
    panel = loss_panel(PLAN, RULES)
    curve = next(each for each in panel.curves if each.name == "chinchilla-3")
    least = min(range(len(curve.y)), key=lambda index: curve.y[index])
    assert curve.x[least] == pytest.approx(CHINCHILLA_3.optimum(1e20)[0])
    assert curve.y[least] == pytest.approx(0, abs=1e-12)
    assert list(curve.y[: least + 1]) == sorted(curve.y[: least + 1], reverse=True)
    assert list(curve.y[least:]) == sorted(curve.y[least:])
    assert "20:1" not in [each.name for each in panel.curves]


def test_both_panels() -> None:
    assert plan_panels(PLAN, RULES) == (ratio_panel(PLAN, RULES), loss_panel(PLAN, RULES))
