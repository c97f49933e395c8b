"""Chinchilla's examples hold, carry the lessons' answers, and fail when the law is another."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import chinchilla
from nextok.lessons.chinchilla import EXAMPLES, compute_optimal, parametric_loss, parametric_optimal, tokens_and_flop
from nextok.lessons.worked import Example

NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("chinchilla", {"91.3k, 1.83M", "2.89M, 57.7M", "91.3M, 1.83B", "913M, 18.3B", "2.89B, 57.7B", "70.0B, 1.40T"}),
        ("chinchilla-models", {"2.14M, 1.37e12", "2.49B, 1.86e18", "31.2B, 2.91e20", "20.0B, 1.20e20"}),
        ("chinchilla-models", {"1.40T, 5.88e23", 1_120, 0.0105, 7.2e8}),
        ("which-n", {621_312, 642_048, 101_504, -3.2, 14.4}),
        ("u-shape", {"645M", 40.1, 92.6, "32.2B"}),
    ],
)
def test_the_lessons_answers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


@given(st.floats(1e9, 1e27))
def test_the_rule_spends_the_budget_at_twenty_tokens_a_parameter(flop: float) -> None:
    parameters, tokens = compute_optimal(flop)
    assert math.isclose(6 * parameters * tokens, flop, rel_tol=1e-9)
    assert math.isclose(tokens, 20 * parameters, rel_tol=1e-12)
    assert math.isclose(tokens_and_flop(parameters)[1], flop, rel_tol=1e-9)


@given(st.floats(1e12, 1e26), st.floats(0.1, 10).filter(lambda factor: abs(factor - 1) > 1e-3))
def test_no_other_size_has_less_parametric_loss(flop: float, factor: float) -> None:
    parameters, tokens = parametric_optimal(flop)
    assert parametric_loss(parameters * factor, tokens / factor) > parametric_loss(parameters, tokens)


def test_another_ratio_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinchilla, "TOKENS_PER_PARAMETER", 19.0)
    assert {"N*, D* at C = 1e21", "tokens a parameter by the rule"} <= wrong_now(EXAMPLES, "chinchilla")
    assert {"TinyGPT: D, C", "70B: D, C"} <= wrong_now(EXAMPLES, "chinchilla-models")


def test_another_exponent_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinchilla, "_BETA", 0.2849083)
    assert "D/N at Gopher's 5.76e23 FLOP" in wrong_now(EXAMPLES, "u-shape")


def test_an_optimum_that_is_none_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinchilla, "parametric_optimal", compute_optimal)
    assert "N of least loss, parametric law" in wrong_now(EXAMPLES, "u-shape")


def test_another_model_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from nextok.spec import preset_config

    monkeypatch.setattr(chinchilla, "preset_config", lambda name: preset_config("nano"))
    assert {"TinyGPT, exact, FLOP a token", "TinyGPT, 6 N"} <= wrong_now(EXAMPLES, "which-n")


@pytest.mark.parametrize(
    "phrase",
    [
        "Right: Hoffmann et al.",
        "N* = sqrt(C/120), D* = 20 N* = sqrt(10 C/3)",
        "93 tokens a parameter at Gopher's compute",
        "U-shaped in log N; past the optimum more data loses",
        "642,048 FLOP a token against 621,312 exact (-3 %), GPT-2 small is +14 %",
    ],
)
def test_the_slides_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(EXAMPLES)
