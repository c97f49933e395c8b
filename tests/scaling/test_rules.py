"""The named rules: each answers every kind of budget, and those that need text or a fit appear with it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.scaling import PUBLISHED, Covered, FittedLaw, ParametricLaw, Rule, all_rules
from nextok.scaling.published import CHINCHILLA_TABLE_3, CHINCHILLA_TABLE_A3
from nextok.scaling.rules import CHINCHILLA_1, CHINCHILLA_2, KAPLAN, parametric_laws

LAW = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)
FIT = FittedLaw(
    law=LAW,
    covered=Covered(C=(2e12, 2e13)),
    counting="matmul",
    runs=15,
    draws=tuple((1.1 + 0.02 * k, 80.0 + 2 * k, 300.0, 0.38, 0.36) for k in range(11)),
)


@pytest.mark.parametrize("rule", PUBLISHED, ids=lambda rule: rule.name)
@given(decades=st.floats(12, 26))
def test_every_rule_spends_the_budget_and_finds_it_again(rule: Rule, decades: float) -> None:
    C = 10**decades
    N, D = rule.frontier.optimum(C)
    assert math.isclose(6 * N * D, C, rel_tol=1e-12)
    assert rule.frontier.compute_for_parameters(N) == pytest.approx(C, rel=1e-9)
    assert rule.frontier.compute_for_tokens(D) == pytest.approx(C, rel=1e-9)
    if rule.spread is not None:
        low, high = rule.spread.interval(N, C)
        assert low <= N <= high


def test_approaches_one_and_two_are_their_tables_at_the_rows() -> None:
    for N, C, D in CHINCHILLA_TABLE_3:
        assert CHINCHILLA_1.frontier.optimum(C) == pytest.approx((N, D), rel=0.05)
    for N, C, D, *_ in CHINCHILLA_TABLE_A3:
        assert CHINCHILLA_2.frontier.optimum(C) == pytest.approx((N, D), rel=0.05)


def test_kaplan_wants_larger_models_and_counts_them_without_embeddings() -> None:
    N, D = KAPLAN.frontier.optimum(5.76e23)
    assert D / N < 1
    assert KAPLAN.counting == "non-embedding"


def test_rules_that_need_something_appear_with_it() -> None:
    names = [rule.name for rule in all_rules()]
    assert names == [
        "20:1",
        "chinchilla-1",
        "chinchilla-2",
        "chinchilla-3",
        "chinchilla-3-printed",
        "besiroglu",
        "kaplan",
    ]
    assert "muennighoff" in [rule.name for rule in all_rules(unique_tokens=1e9)]
    assert all_rules(fit=FIT)[0].name == "own-fit"


def test_every_rule_has_a_source_and_its_own_name() -> None:
    rules = all_rules(unique_tokens=1e9, fit=FIT)
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.source for rule in rules)
    assert all(rule.loss_of for rule in rules if rule.predicts is not None)


def test_ones_own_fit_tells_intervals_of_size_and_loss_from_its_draws() -> None:
    own = all_rules(fit=FIT)[0]
    assert own.frontier == LAW
    N, D = LAW.optimum(1e14)
    assert own.spread is not None and own.loss_interval is not None
    low, high = own.spread.interval(N, 1e14)
    assert low < N < high
    sizes = sorted(ParametricLaw(E=1, A=80.0 + 2 * k, B=300, alpha=0.38, beta=0.36).optimum(1e14)[0] for k in range(11))
    assert (low, high) == pytest.approx((sizes[1], sizes[9]))
    interval = own.loss_interval(N, D)
    assert interval is not None and interval[0] < LAW.loss(N, D) < interval[1]


def test_a_fit_without_draws_has_no_intervals_and_says_so() -> None:
    bare = FittedLaw(law=LAW, covered=Covered(), counting="total", runs=6)
    own = all_rules(fit=bare)[0]
    assert own.spread is None
    assert "no draws" in own.remark


def test_laws_that_tell_trade_offs() -> None:
    assert set(parametric_laws(all_rules())) == {"chinchilla-3", "besiroglu"}
    assert parametric_laws(all_rules(fit=FIT))["own-fit"] == LAW
