"""Smaller models and served models, against what was published and against their definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import InputError
from nextok.scaling import ParametricLaw, cheapest_served, other_size
from nextok.scaling.published import BESIROGLU, CHINCHILLA_3


@pytest.mark.parametrize(
    ("law", "factor", "overhead_percent"),
    [
        (CHINCHILLA_3, 0.75, 2.9),
        (CHINCHILLA_3, 0.5, 21),
        (CHINCHILLA_3, 0.3, 108),
        (CHINCHILLA_3, 0.25, 194),
        (CHINCHILLA_3, 1.5, 4.7),
        (CHINCHILLA_3, 2, 13),
        (CHINCHILLA_3, 4, 53),
        (BESIROGLU, 0.75, 3.4),
        (BESIROGLU, 0.5, 26),
        (BESIROGLU, 0.3, 161),
        (BESIROGLU, 0.25, 347),
    ],
)
def test_overhead_of_another_size(law: ParametricLaw, factor: float, overhead_percent: float) -> None:
    overhead = other_size(law, factor).compute_overhead
    assert overhead is not None
    assert 100 * overhead == pytest.approx(overhead_percent, abs=0.6)


def test_tokens_of_another_size() -> None:
    found = [other_size(CHINCHILLA_3, factor).tokens_factor for factor in (0.75, 0.5, 0.3, 0.25)]
    assert found == pytest.approx([1.37, 2.42, 6.9, 11.7], rel=5e-3)


@given(st.floats(0.2, 5), st.floats(14, 26))
def test_another_size_reaches_the_same_loss_at_every_compute(factor: float, decades: float) -> None:
    N, D = BESIROGLU.optimum(10**decades)
    size = other_size(BESIROGLU, factor)
    assert size.tokens_factor is not None
    assert BESIROGLU.loss(N * factor, D * size.tokens_factor) == pytest.approx(BESIROGLU.loss(N, D), rel=1e-12)
    assert size.compute_overhead is not None and size.compute_overhead >= -1e-12


def test_below_the_smallest_size_no_data_suffices() -> None:
    smallest = other_size(BESIROGLU, 1.0).smallest_factor
    assert other_size(BESIROGLU, smallest * 0.999).tokens_factor is None
    assert other_size(BESIROGLU, smallest * 0.999).compute_overhead is None
    assert other_size(BESIROGLU, smallest * 1.001).tokens_factor is not None


@pytest.mark.parametrize(
    ("law", "size", "served", "parameters", "tokens_factor", "saved_percent"),
    [
        (CHINCHILLA_3, 13e9, 2e12, 7.12e9, 2.10, 16.3),
        (CHINCHILLA_3, 7e9, 1e11, 6.05e9, 1.16, 0.7),
        (CHINCHILLA_3, 30e9, 1e13, 13.9e9, 2.74, 26.6),
        (BESIROGLU, 13e9, 2e12, 6.10e9, 2.83, 29.0),
    ],
)
def test_cheapest_to_serve(
    law: ParametricLaw, size: float, served: float, parameters: float, tokens_factor: float, saved_percent: float
) -> None:
    found = cheapest_served(law, law.compute_for_parameters(size), served)
    assert found.parameters == pytest.approx(parameters, rel=3e-3)
    assert found.tokens_factor == pytest.approx(tokens_factor, abs=0.006)
    assert 100 * found.saving == pytest.approx(saved_percent, abs=0.06)


@given(st.floats(16, 24), st.floats(8, 14))
def test_serving_keeps_the_loss_and_never_costs_more(compute: float, served: float) -> None:
    C, tokens = 10**compute, 10**served
    found = cheapest_served(BESIROGLU, C, tokens)
    best = BESIROGLU.optimum(C)
    assert BESIROGLU.loss(found.parameters, found.tokens) == pytest.approx(BESIROGLU.loss(*best), rel=1e-9)
    assert found.saving >= -1e-12 and found.parameters_factor <= 1 + 1e-9
    assert found.flops == pytest.approx(6 * found.parameters * found.tokens + 2 * found.parameters * tokens)


def test_nothing_served_is_the_optimum() -> None:
    found = cheapest_served(BESIROGLU, 1e20, 0.0)
    assert (found.parameters, found.tokens) == pytest.approx(BESIROGLU.optimum(1e20), rel=1e-6)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_a_factor_that_is_none_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="factor must be above 0"):
        other_size(BESIROGLU, factor)


def test_negative_serving_is_refused() -> None:
    with pytest.raises(InputError, match="below 0"):
        cheapest_served(BESIROGLU, 1e20, -1.0)
