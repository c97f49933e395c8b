import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax

from nextok.decode import log_softmax, log_softmax_rows, token_logprob, token_logprobs, top_logprobs
from nextok.errors import NonFiniteError


def test_log_softmax_by_hand():
    assert log_softmax(np.zeros(4, np.float32)) == pytest.approx([-np.log(4)] * 4)
    assert log_softmax(np.log(np.array([0.5, 0.25, 0.25], np.float32))) == pytest.approx(np.log([0.5, 0.25, 0.25]))


@pytest.mark.parametrize("shift", [-3e4, 0.0, 3e4])
def test_log_softmax_is_scipys_for_a_whole_vocabulary(shift):
    logits = (np.random.default_rng(0).normal(size=50_257) * 4 + shift).astype(np.float32)
    wanted = scipy_log_softmax(logits.astype(np.float64))
    assert log_softmax(logits).dtype == np.float32
    assert np.abs(log_softmax(logits) - wanted).max() < 2e-6


def test_the_probability_of_one_token_is_that_of_all():
    logits = (np.random.default_rng(1).normal(size=(6, 50_257)) * 4).astype(np.float32)
    ids = np.array([0, 50_256, 7, 7, 1000, 3])
    wanted = [log_softmax(row)[id] for row, id in zip(logits, ids, strict=True)]
    assert [token_logprob(row, id) for row, id in zip(logits, ids, strict=True)] == pytest.approx(wanted, abs=1e-5)
    assert token_logprobs(logits, ids) == pytest.approx(wanted, abs=1e-5)


def test_extreme_logits_do_not_overflow():
    logits = np.array([3e38, -3e38, -np.inf], np.float32)
    assert log_softmax(logits).tolist()[0] == 0
    assert token_logprob(logits, 0) == 0
    assert token_logprob(logits, 2) == -np.inf


def test_top_logprobs_are_best_first_and_equal_ones_by_id():
    logits = np.array([1, 3, 3, 0, 2], np.float32)
    top = top_logprobs(logits, 3)
    assert [id for id, _ in top] == [1, 2, 4]
    assert [value for _, value in top] == pytest.approx(log_softmax(logits)[[1, 2, 4]].tolist())
    assert top_logprobs(logits, 0) == ()
    assert len(top_logprobs(logits, 99)) == 5


@pytest.mark.parametrize("bad", [[1, np.nan, 2], [np.nan] * 3, [1, np.inf, 2], [-np.inf] * 3])
def test_logits_that_are_no_distribution_are_an_error(bad):
    logits = np.array(bad, np.float32)
    for compute in (log_softmax, lambda row: token_logprob(row, 0), lambda row: top_logprobs(row, 1)):
        with pytest.raises(NonFiniteError):
            compute(logits)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_each_what_a_row_alone_is_in_the_precision_given(dtype: type) -> None:
    logits_NV = np.random.default_rng(0).standard_normal((4, 9)).astype(dtype)
    rows_NV = log_softmax_rows(logits_NV)
    assert rows_NV.dtype == dtype
    for row_V, logits_V in zip(rows_NV, logits_NV, strict=True):
        np.testing.assert_allclose(row_V, log_softmax(logits_V), atol=1e-6)
    assert np.isnan(log_softmax_rows(np.array([[0.0, np.nan]]))).all()
