"""The parametric law: hand values, the optimum as an optimum, and the ways back to C."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import InputError
from nextok.scaling import ParametricLaw

laws = st.builds(
    ParametricLaw,
    E=st.floats(0, 3),
    A=st.floats(1, 1e5),
    B=st.floats(1, 1e5),
    alpha=st.floats(0.05, 0.9),
    beta=st.floats(0.05, 0.9),
)
budgets = st.floats(12, 26).map(lambda decades: 10**decades)


def test_loss_by_hand() -> None:
    law = ParametricLaw(E=1.0, A=10.0, B=100.0, alpha=0.5, beta=1.0)
    assert law.loss(100.0, 1000.0) == pytest.approx(1.0 + 10 / 10 + 100 / 1000)


def test_optimum_by_hand_where_both_terms_are_alike() -> None:
    law = ParametricLaw(E=0.0, A=5.0, B=5.0, alpha=0.3, beta=0.3)
    assert law.optimum(600.0) == pytest.approx((10.0, 10.0))
    assert (law.a, law.b, law.G) == pytest.approx((0.5, 0.5, 1.0))


@given(laws, budgets)
def test_optimum_spends_the_budget_and_has_no_slope(law: ParametricLaw, C: float) -> None:
    N, D = law.optimum(C)
    assert math.isclose(6 * N * D, C, rel_tol=1e-12)
    assert law.alpha * law.A * N**-law.alpha == pytest.approx(law.beta * law.B * D**-law.beta, rel=1e-9)


@given(laws, budgets, st.sampled_from([0.5, 0.9, 1.1, 2.0]))
def test_no_other_split_of_the_budget_does_better(law: ParametricLaw, C: float, factor: float) -> None:
    N, D = law.optimum(C)
    assert law.loss(N * factor, D / factor) >= law.loss(N, D)


@given(laws, budgets)
def test_more_compute_means_more_of_both_and_less_loss(law: ParametricLaw, C: float) -> None:
    (N, D), (more_N, more_D) = law.optimum(C), law.optimum(10 * C)
    assert more_N > N and more_D > D and law.loss(more_N, more_D) < law.loss(N, D)


@given(laws, budgets)
def test_the_ways_back_to_the_budget(law: ParametricLaw, C: float) -> None:
    N, D = law.optimum(C)
    assert law.compute_for_parameters(N) == pytest.approx(C, rel=1e-9)
    assert law.compute_for_tokens(D) == pytest.approx(C, rel=1e-9)


def test_budget_and_tokens_for_a_loss() -> None:
    law = ParametricLaw(E=1.8, A=480.0, B=2100.0, alpha=0.35, beta=0.37)
    N, D = law.optimum(1e20)
    loss = law.loss(N, D)
    assert law.compute_for_loss(loss) == pytest.approx(1e20, rel=1e-9)
    assert law.tokens_for_loss(N, loss) == pytest.approx(D, rel=1e-9)
    assert law.compute_for_loss(1.8) is None
    assert law.tokens_for_loss(N / 1e6, loss) is None


@given(laws, budgets)
def test_counting_in_millions_changes_nothing(law: ParametricLaw, C: float) -> None:
    million = 1e6
    rescaled = ParametricLaw(
        E=law.E, A=law.A * million**-law.alpha, B=law.B * million**-law.beta, alpha=law.alpha, beta=law.beta
    )
    N, D = law.optimum(C)
    assert rescaled.optimum(C / million**2) == pytest.approx((N / million, D / million), rel=1e-9)
    assert rescaled.loss(N / million, D / million) == pytest.approx(law.loss(N, D), rel=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"A": 0.0}, {"B": -1.0}, {"alpha": math.nan}, {"beta": math.inf}, {"E": -0.1}, {"E": math.nan}]
)
def test_constants_that_are_no_law_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        ParametricLaw(**{"E": 1.0, "A": 1.0, "B": 1.0, "alpha": 0.5, "beta": 0.5, **wrong})


def test_no_budget_is_refused() -> None:
    law = ParametricLaw(E=1.0, A=1.0, B=1.0, alpha=0.5, beta=0.5)
    for asked in (law.optimum, law.compute_for_parameters, law.compute_for_tokens):
        with pytest.raises(InputError, match="not above 0"):
            asked(0.0)
