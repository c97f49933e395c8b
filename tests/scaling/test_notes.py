"""Notes appear where there is something to know, and nowhere else."""

from typing import Any

from nextok.scaling import BudgetOptions, ModelOptions, PlanOptions, plan
from nextok.scaling.notes import notes_on


def notes(model: dict[str, Any] | None = None, **options: Any) -> str:
    flops = options.pop("flops")
    settled = ModelOptions(**(model or {}))
    return "\n".join(plan(PlanOptions(budget=BudgetOptions(flops=flops), model=settled, **options)).notes)


def test_a_plan_among_the_runs_needs_no_note_on_extrapolation() -> None:
    assert "extrapolated" not in notes(flops="1e20")
    assert "extrapolated by 1.1 decades" in notes(flops="1e17")


def test_exact_cost_is_noted_where_it_differs_from_six_n() -> None:
    assert "times 6 N" in notes({"recipe": "classic", "context": 2048}, flops="1e17")
    assert "times 6 N" not in notes({"recipe": "classic", "context": 64, "vocab_size": 16_384}, flops="1e21")


def test_few_epochs_need_no_warning() -> None:
    assert "by heart" not in notes(flops="1e14", unique_tokens="1B")
    assert "by heart" in notes(flops="1e14", unique_tokens="100k")


def test_without_a_model_only_the_rule_is_noted() -> None:
    chosen = plan(PlanOptions(budget=BudgetOptions(flops="1e20"))).chosen
    assert notes_on(chosen, None, "total") == ()
    assert len(notes_on(chosen, None, "matmul")) == 1
