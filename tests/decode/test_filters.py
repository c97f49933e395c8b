import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nextok.decode.filters import min_p, top_k, top_p

# Few distinct values, so that ties are common.
LOGITS = arrays(
    np.float32, st.integers(1, 40), elements=st.sampled_from([-np.inf, -60, -3, -1, -0.5, 0, 0.25, 2, 9])
).filter(lambda logits: logits.max() > -np.inf)


def logits_of(*probabilities):
    return np.log(np.array(probabilities)).astype(np.float32)


def ranking(logits):
    """Returns the indices from most to least likely, equal ones by index, by a full sort."""
    return np.lexsort([np.arange(logits.size), -logits])


@pytest.mark.parametrize(
    ("logits", "k", "kept"),
    [
        ([1, 3, 2], 1, [1]),
        ([1, 3, 2], 2, [1, 2]),
        ([1, 3, 2], 3, [0, 1, 2]),
        ([1, 3, 2], 100_000, [0, 1, 2]),
        ([5, 1, 5, 5], 2, [0, 2]),
        ([1, 5, 1, 1], 3, [0, 1, 2]),
        ([-np.inf, 1, -np.inf], 2, [1]),
        ([-np.inf, 1, -np.inf], 3, [1]),
    ],
)
def test_top_k_by_hand(logits, k, kept):
    assert top_k(np.array(logits, np.float32), k).tolist() == kept


@pytest.mark.parametrize(
    ("probabilities", "p", "kept"),
    [
        ([0.5, 0.41, 0.09], 0.9, [0, 1]),
        ([0.5, 0.41, 0.09], 0.92, [0, 1, 2]),
        ([0.5, 0.41, 0.09], 0.4, [0]),
        ([0.5, 0.41, 0.09], 1e-12, [0]),
        ([0.09, 0.5, 0.41], 0.9, [1, 2]),
        ([0.25, 0.25, 0.25, 0.25], 0.5 - 1e-6, [0, 1]),
        ([0.25, 0.25, 0.25, 0.25], 0.1, [0]),
        ([0.1, 0.2, 0.3, 0.4], 1.0, [0, 1, 2, 3]),
        ([1.0], 0.5, [0]),
    ],
)
def test_top_p_by_hand_keeps_the_token_that_crosses_p(probabilities, p, kept):
    assert top_p(logits_of(*probabilities), p).tolist() == kept


@pytest.mark.parametrize(
    ("probabilities", "p", "kept"),
    [
        ([0.6, 0.3, 0.07, 0.03], 0.1, [0, 1, 2]),
        ([0.6, 0.3, 0.07, 0.03], 0.04, [0, 1, 2, 3]),
        ([0.3, 0.6, 0.1], 0.6, [1]),
        ([0.5, 0.5], 1.0, [0, 1]),
    ],
)
def test_min_p_by_hand(probabilities, p, kept):
    assert min_p(logits_of(*probabilities), p).tolist() == kept


@given(LOGITS, st.integers(1, 50))
def test_top_k_is_the_head_of_a_full_sort(logits, k):
    possible = [i for i in ranking(logits) if logits[i] > -np.inf]
    assert top_k(logits, k).tolist() == sorted(possible[:k])


@given(LOGITS, st.floats(1e-9, 1, exclude_min=False))
def test_top_p_is_the_smallest_head_of_a_full_sort_that_reaches_p(logits, p):
    ranked = ranking(logits)
    weights = np.exp(logits - logits.max()).astype(np.float64)
    mass = np.cumsum(weights[ranked]) / weights.sum()
    kept = top_p(logits, p)
    assert kept.tolist() == sorted(ranked[: kept.size].tolist())
    assert kept.size >= 1
    assert kept.size == 1 or mass[kept.size - 2] < p + 1e-12
    assert mass[kept.size - 1] >= p - 1e-12


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.999])
def test_top_p_of_a_whole_vocabulary_is_that_of_a_full_sort(spread, p):
    logits = (np.random.default_rng(3).normal(size=50_257) * spread).astype(np.float32)
    ranked = ranking(logits)
    mass = np.cumsum(np.exp(logits - logits.max()).astype(np.float64)[ranked])
    wanted = ranked[: np.searchsorted(mass, p * mass[-1]) + 1]
    assert np.array_equal(top_p(logits, p), np.sort(wanted))


@given(LOGITS, st.floats(1e-6, 1))
def test_no_filter_keeps_an_impossible_id_or_drops_the_likeliest(logits, p):
    for kept in (top_k(logits, 3), top_p(logits, p), min_p(logits, p)):
        assert logits[kept].min() > -np.inf
        assert logits.argmax() in kept
        assert kept.tolist() == sorted(set(kept.tolist()))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("seed", range(5))
def test_the_filters_keep_what_transformers_keeps(seed, p):
    torch = pytest.importorskip("torch")
    from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = (np.random.default_rng(seed).normal(size=300) * 3).astype(np.float32)
    scores = torch.from_numpy(logits)[None]
    pairs = [
        (top_k(logits, 17), TopKLogitsWarper(17)),
        (top_p(logits, p), TopPLogitsWarper(p)),
        (min_p(logits, p), MinPLogitsWarper(p)),
    ]
    for kept, warper in pairs:
        assert kept.tolist() == torch.isfinite(warper(None, scores.clone())[0]).nonzero()[:, 0].tolist()
