"""Whole plans: the lesson's numbers, budgets of every kind, exact costs, and what is refused."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import ConfigError, InputError
from nextok.files import from_json, to_json
from nextok.scaling import BudgetOptions, Covered, FittedLaw, ModelOptions, ParametricLaw, Plan, PlanOptions, plan
from nextok.spec import preset_config

LAW = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)
FIT = FittedLaw(
    law=LAW, covered=Covered(C=(2e12, 2e13)), counting="matmul", runs=15, draws=((1.2, 90.0, 300.0, 0.38, 0.36),) * 3
)


def made(model: dict[str, Any] | None = None, fit: FittedLaw | None = None, /, **options: Any) -> Plan:
    budget = {
        name: options.pop(name)
        for name in list(options)
        if name in ("flops", "tokens", "parameters", "device_hours", "device", "devices", "flops_per_s")
    }
    return plan(PlanOptions(budget=BudgetOptions(**budget), model=ModelOptions(**(model or {})), **options), fit=fit)


@pytest.mark.parametrize(
    ("flops", "parameters", "tokens"),
    [
        ("1e12", 91.3e3, 1.83e6),
        ("1e15", 2.89e6, 57.7e6),
        ("1e18", 91.3e6, 1.83e9),
        ("1e21", 2.89e9, 57.7e9),
        ("5.88e23", 70.0e9, 1.40e12),
    ],
)
def test_the_lessons_answers(flops: str, parameters: float, tokens: float) -> None:
    answer = made(flops=flops).chosen
    assert (answer.parameters, answer.tokens) == pytest.approx((parameters, tokens), rel=3e-3)
    assert answer.tokens_per_parameter == pytest.approx(20)


def test_gpt2_small_by_its_size() -> None:
    planned = made({"recipe": "classic"}, parameters="124439808")
    assert planned.chosen.tokens == pytest.approx(2.49e9, rel=2e-3)
    assert planned.chosen.flops == pytest.approx(1.86e18, rel=2e-3)
    model = planned.model
    assert model is not None
    assert model.config == preset_config("gpt2", "classic")
    assert model.counts.training_flops_per_token == 854_438_400
    assert model.flops == 854_438_400 * model.tokens
    assert model.weight_bytes == 4 * 124_439_808
    assert model.checkpoint_bytes == 12 * 124_439_808
    assert any("1.14 times 6 N" in note for note in planned.notes)


@settings(max_examples=10)
@given(st.floats(12, 25), st.sampled_from(["20:1", "chinchilla-1", "chinchilla-3", "besiroglu"]))
def test_exact_flops_times_tokens_is_the_budget(decades: float, rule: str) -> None:
    flops = round(10**decades)
    model = made(flops=flops, rule=rule).model
    assert model is not None
    assert math.isclose(model.counts.training_flops_per_token * model.tokens, flops, rel_tol=1e-3)
    assert model.flops == float(model.counts.training_flops_per_token * model.tokens)


@pytest.mark.parametrize("given_as", ["flops", "parameters", "tokens"])
def test_every_budget_leads_to_the_same_answer_of_every_rule(given_as: str) -> None:
    for answer in made(flops="1e20").answers:
        value = {"flops": answer.flops, "parameters": answer.parameters, "tokens": answer.tokens}[given_as]
        again = next(each for each in made(**{given_as: round(value)}).answers if each.rule == answer.rule)
        assert (again.parameters, again.tokens) == pytest.approx((answer.parameters, answer.tokens), rel=1e-6)


def test_no_rule_mixes_the_n_of_one_with_the_d_of_another() -> None:
    for answer in made(flops="1e20", unique_tokens="1B").answers:
        assert math.isclose(6 * answer.parameters * answer.tokens, 1e20, rel_tol=1e-9)


def test_a_loss_is_told_only_among_the_runs_of_its_rule() -> None:
    inside = {answer.rule: answer for answer in made(flops="1e20").answers}
    outside = {answer.rule: answer for answer in made(flops="1e14").answers}
    assert inside["chinchilla-3"].loss == pytest.approx(2.553, abs=5e-4)
    assert inside["20:1"].loss is None
    assert outside["chinchilla-3"].loss is None
    assert outside["chinchilla-3"].extrapolated_decades == pytest.approx(4.15, abs=0.01)


def test_intervals_are_of_a_budget_of_compute() -> None:
    besiroglu = next(answer for answer in made(flops="1e20").answers if answer.rule == "besiroglu")
    assert besiroglu.parameters_interval is not None and besiroglu.ratio_interval is not None
    assert besiroglu.ratio_interval[0] < besiroglu.tokens_per_parameter < besiroglu.ratio_interval[1]
    assert all(answer.parameters_interval is None for answer in made(tokens="1B").answers)


def test_a_fit_of_ones_own_is_followed_with_what_its_n_counts() -> None:
    planned = made({"vocab_size": 256}, FIT, flops="6e13")
    assert planned.chosen.rule == "own-fit"
    assert planned.chosen.loss == pytest.approx(LAW.loss(*LAW.optimum(6e13)))
    assert planned.chosen.loss_interval is not None
    assert planned.model is not None and planned.model.counting == "matmul"
    assert planned.model.parameters == planned.model.counts.matmul_parameters


def test_another_count_of_n_is_used_and_said() -> None:
    planned = made(flops="1e15", counting="matmul")
    assert planned.model is not None and planned.model.parameters == planned.model.counts.matmul_parameters
    assert any("read as matmul" in note for note in planned.notes)


def test_repetition_over_ones_own_text() -> None:
    planned = made(flops="1e14", unique_tokens="1M")
    assert planned.model is not None and planned.model.repetition is not None
    repetition = planned.model.repetition
    assert repetition.epochs == pytest.approx(planned.model.tokens / 1e6)
    assert repetition.effective_tokens == pytest.approx(repetition.worth * planned.model.tokens)
    assert any("by heart" in note for note in planned.notes)
    assert "muennighoff" in [answer.rule for answer in planned.answers]


def test_trade_offs_come_from_every_parametric_law_when_asked() -> None:
    assert made(flops="1e20").tradeoffs == ()
    planned = made(flops="1e20", smaller=0.5, inference_tokens="1T")
    assert [each.law for each in planned.tradeoffs] == ["chinchilla-3", "besiroglu"]
    for each in planned.tradeoffs:
        assert each.smaller is not None and each.served is not None and each.served.parameters_factor < 1


def test_time_follows_the_speed() -> None:
    slow, fast = (made(flops="1e20", flops_per_s=speed).model for speed in (1e14, 2e14))
    assert slow is not None and fast is not None
    assert slow.seconds == pytest.approx(1e20 / 1e14, rel=1e-6) == pytest.approx(2 * fast.seconds)
    assert slow.seconds_at_published_mfu is None
    named = made(flops="1e20", device="a100", devices=8).model
    assert named is not None and named.seconds_at_published_mfu is not None
    least, most = named.seconds_at_published_mfu
    assert least < named.seconds < most
    assert named.seconds == pytest.approx(1e20 / (8 * 0.4 * 312e12), rel=1e-6)


def test_a_budget_below_every_model_still_compares_the_rules() -> None:
    planned = made(flops="1e9")
    assert planned.model is None
    assert any("no model within" in note for note in planned.notes)
    assert len(planned.answers) == 7


def test_embeddings_that_dominate_are_said() -> None:
    planned = made({"vocab_size": 50_257}, flops="1.2e15")
    assert planned.model is not None and planned.model.embedding_share > 0.8
    assert any("Tables and head" in note and "without tables" in note for note in planned.notes)


def test_what_was_asked_of_the_model_is_not_given_up_silently() -> None:
    with pytest.raises(InputError, match="50,257"):
        made({"vocab_size": 50_257}, flops="1e12")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rule": "own-fit"}, "It needs --fit"),
        ({"rule": "muennighoff"}, "It needs --unique-tokens"),
        ({"rule": "besirogl"}, "Did you mean 'besiroglu'"),
        ({"unique_tokens": "0"}, "--unique-tokens 0"),
        ({"inference_tokens": "0"}, "--inference-tokens 0"),
        ({"smaller": 0.0}, "--smaller 0"),
        ({"smaller": math.nan}, "--smaller nan"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(flops="1e20", **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"flops": "1e21"}, ["N* = sqrt(C / 120) = sqrt(1e21 / 120) = 2.89B", "D* = 20 N* = sqrt(10 C / 3) = 57.7B"]),
        ({"parameters": "1B"}, ["D* = 20 N = 20 x 1.00B = 20.0B", "C = 120 N^2 = 120 x 1.00B^2 = 1.2e20 FLOP"]),
        ({"tokens": "20B"}, ["N* = D / 20 = 20.0B / 20 = 1.00B", "C = 6 N* D = 6 x 1.00B x 20.0B = 1.2e20 FLOP"]),
    ],
)
def test_the_algebra_is_shown_with_numbers(options: dict[str, Any], lines: list[str]) -> None:
    first, *rest = made(**options).algebra
    assert "120 N^2" in first
    assert rest == lines


def test_a_plan_is_strict_json() -> None:
    mapping = made(None, FIT, flops="1e20", unique_tokens="1B", smaller=0.01, inference_tokens="1T").to_mapping()
    read = from_json(to_json(mapping))
    assert read["chosen"] == "own-fit"
    assert read["model"]["counts"]["parameters"] == mapping["model"]["counts"]["parameters"]
    assert {answer["rule"] for answer in read["answers"]} >= {"20:1", "besiroglu", "muennighoff"}
    assert json.dumps(read, allow_nan=False)
