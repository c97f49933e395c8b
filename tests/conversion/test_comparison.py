"""How far two models are from each other, in numbers that can be checked by hand."""

import math

import numpy as np
import pytest

from nextok.conversion.comparison import compare, fixed_ids


def test_hand_values() -> None:
    expected = np.array([[0.0, 0.0], [math.log(3), 0.0]], dtype=np.float32)  # probabilities 1/2 1/2 and 3/4 1/4
    got = np.array([[0.0, 0.0], [0.0, math.log(3)]], dtype=np.float32)
    found = compare(expected, got)
    assert (found.tokens, found.argmax_agreement) == (2, 0.5)
    assert found.max_logit_difference == pytest.approx(math.log(3))
    assert found.mean_kl_nats == pytest.approx((0.75 - 0.25) * math.log(3) / 2)


def test_a_model_is_no_way_from_itself() -> None:
    logits = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    found = compare(logits, logits)
    assert (found.max_logit_difference, found.argmax_agreement, found.mean_kl_nats) == (0.0, 1.0, 0.0)


def test_a_shift_of_all_logits_changes_no_probability_but_is_told() -> None:
    logits = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    found = compare(logits, logits + 1)
    assert found.max_logit_difference == pytest.approx(1)
    assert found.mean_kl_nats < 1e-12


def test_what_is_no_number_is_never_a_small_difference() -> None:
    logits = np.zeros((1, 3), dtype=np.float32)
    assert not compare(logits, np.array([[0, np.nan, 0]], dtype=np.float32)).max_logit_difference <= 1


@pytest.mark.parametrize(("context", "shape"), [(3, (4, 3)), (1000, (4, 32))])
def test_ids_are_the_same_every_time_and_fit_the_model(context: int, shape: tuple[int, int]) -> None:
    ids = fixed_ids(context, 5)
    assert ids.shape == shape
    assert set(ids.ravel().tolist()) <= set(range(5))
    np.testing.assert_array_equal(ids, fixed_ids(context, 5))
