import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from nextok.decode import Distribution, SamplingConfig, distribution, draw
from nextok.decode.sampling import adjust
from nextok.errors import ConfigError, NonFiniteError, PromptError
from nextok.rng import uniform


def config(**options):
    return SamplingConfig(**{"temperature": 1.0, **options})


def logits_of(*probabilities):
    return np.log(np.array(probabilities)).astype(np.float32)


def kept(logits, prompt=(), output=(), **options):
    """Returns {id: probability} of the ids that can be drawn."""
    result = distribution(np.array(logits, np.float32), config(**options), prompt, output)
    assert result.probabilities.sum() == pytest.approx(1)
    return {int(i): p for i, p in zip(result.ids, result.probabilities, strict=True) if p > 0}


FIVE = logits_of(0.4, 0.1, 0.25, 0.05, 0.2)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {0: 0.4, 1: 0.1, 2: 0.25, 3: 0.05, 4: 0.2}),
        ({"top_k": 2}, {0: 0.4 / 0.65, 2: 0.25 / 0.65}),
        ({"top_k": 0}, {0: 0.4, 1: 0.1, 2: 0.25, 3: 0.05, 4: 0.2}),
        ({"top_k": 100_000}, {0: 0.4, 1: 0.1, 2: 0.25, 3: 0.05, 4: 0.2}),
        ({"top_p": 0.6}, {0: 0.4 / 0.65, 2: 0.25 / 0.65}),
        ({"top_p": 0.7}, {0: 0.4 / 0.85, 2: 0.25 / 0.85, 4: 0.2 / 0.85}),
        ({"min_p": 0.3}, {0: 0.4 / 0.85, 2: 0.25 / 0.85, 4: 0.2 / 0.85}),
        ({"banned_ids": (0, 4)}, {1: 0.25, 2: 0.625, 3: 0.125}),
        (
            {"logit_bias": ((3, np.log(8)),)},
            {0: 0.4 / 1.35, 1: 0.1 / 1.35, 2: 0.25 / 1.35, 3: 0.4 / 1.35, 4: 0.2 / 1.35},
        ),
        ({"temperature": 0}, {0: 1.0}),
        ({"temperature": 0.5}, {i: p * p / 0.275 for i, p in enumerate([0.4, 0.1, 0.25, 0.05, 0.2])}),
    ],
)
def test_each_option_by_hand(options, wanted):
    assert kept(FIVE, **options) == pytest.approx(wanted)


def test_the_order_is_temperature_then_top_k_then_top_p_then_min_p():
    # Renormalised after top-k 3: 0.471, 0.294, 0.235. So top-p 0.75 keeps two where of all five it would keep three.
    assert set(kept(FIVE, top_k=3, top_p=0.75)) == {0, 2}
    assert set(kept(FIVE, top_p=0.75)) == {0, 2, 4}
    # At temperature 0.5 the first holds 0.58 of the mass, so top-p 0.5 keeps it alone.
    assert set(kept(FIVE, temperature=0.5, top_p=0.5)) == {0}
    assert set(kept(FIVE, top_p=0.5)) == {0, 2}
    # And min-p measures after the temperature: 0.25 / 0.4 is 0.625, its square 0.39.
    assert set(kept(FIVE, min_p=0.6)) == {0, 2}
    assert set(kept(FIVE, min_p=0.6, temperature=0.5)) == {0}


def test_repetition_penalty_lowers_both_signs_and_counts_an_id_once():
    logits = np.array([2, -1, 3, 0], np.float32)
    penalised = adjust(logits, config(repetition_penalty=2.0), prompt_ids=[0, 0, 0], output_ids=[1, 0])
    assert penalised.tolist() == [1, -2, 3, 0]
    assert logits.tolist() == [2, -1, 3, 0]
    rewarded = adjust(logits, config(repetition_penalty=0.5), prompt_ids=[0], output_ids=[1])
    assert rewarded.tolist() == [4, -0.5, 3, 0]


def test_frequency_and_presence_penalties_see_the_output_alone():
    logits = np.zeros(4, np.float32)
    options = config(frequency_penalty=0.5, presence_penalty=0.25)
    assert adjust(logits, options, prompt_ids=[3, 3], output_ids=[1, 2, 1]).tolist() == [0, -1.25, -0.75, 0]
    assert adjust(logits, options, prompt_ids=[3, 3], output_ids=[]).tolist() == [0, 0, 0, 0]


def test_bias_comes_before_the_repetition_penalty_and_that_before_presence():
    logits = np.array([-1.0, 0.0], np.float32)
    options = config(logit_bias=((0, 3.0),), repetition_penalty=2.0, presence_penalty=0.5)
    assert adjust(logits, options, output_ids=[0]).tolist() == [0.5, 0.0]


def test_penalties_act_at_temperature_zero_and_ties_go_to_the_lowest_id():
    assert kept([1, 5, 5, 0], temperature=0) == {1: 1.0}
    assert kept([1, 5, 5, 0], output=[1], temperature=0, presence_penalty=1.0) == {2: 1.0}
    assert kept([5, 5, 5], temperature=0, banned_ids=(0,)) == {1: 1.0}


def test_penalties_and_bias_give_exactly_the_distribution_of_the_formula():
    # Seen: 0 and 2 in the prompt, 2 twice and 4 once in the output.
    options = {
        "logit_bias": ((1, 0.5), (1, 0.25), (3, -2.0)),
        "repetition_penalty": 1.25,
        "frequency_penalty": 0.3,
        "presence_penalty": 0.2,
        "temperature": 0.8,
    }
    logits = np.array([1.0, -0.5, 2.0, 0.5, -1.5], np.float32)
    wanted = np.array([1.0 / 1.25, -0.5 + 0.75, 2.0 / 1.25 - 2 * 0.3 - 0.2, 0.5 - 2.0, -1.5 * 1.25 - 0.3 - 0.2])
    wanted = np.exp(wanted / 0.8) / np.exp(wanted / 0.8).sum()
    found = kept(logits, prompt=[0, 2], output=[2, 4, 2], **options)
    assert found == pytest.approx(dict(enumerate(wanted)), rel=1e-5)


def test_a_mask_is_a_ban_of_all_others_and_comes_before_the_filters():
    allowed = np.array([False, True, False, True, True])
    for options in ({}, {"top_k": 2}, {"top_p": 0.6}, {"min_p": 0.3}, {"temperature": 0}, {"repetition_penalty": 2.0}):
        masked = distribution(FIVE, config(**options), [1], allowed_V=allowed)
        banned = distribution(FIVE, config(banned_ids=(0, 2), **options), [1])
        assert masked.ids.tolist() == banned.ids.tolist()
        assert np.array_equal(masked.probabilities, banned.probabilities)


def test_a_mask_that_leaves_nothing_is_a_plain_error_and_never_token_0():
    for temperature in (0, 1):
        options = config(temperature=temperature, banned_ids=(1,))
        for allowed in (np.zeros(5, np.bool_), np.arange(5) == 1):
            with pytest.raises(PromptError, match="The constraint and the banned ids leave no token"):
                distribution(FIVE, options, allowed_V=allowed)


def test_ids_at_the_border_of_top_k_are_the_lowest():
    assert set(kept([2, 7, 2, 2], top_k=2)) == {0, 1}


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-30, 1e-3])
def test_a_temperature_near_zero_is_the_argmax_shared_by_ties(temperature):
    assert kept([1, 5, 5, -np.inf], temperature=temperature) == pytest.approx({1: 0.5, 2: 0.5})


@pytest.mark.parametrize("temperature", [1e30, 1e300])
def test_an_immense_temperature_is_uniform_over_what_is_allowed(temperature):
    wanted = {0: 1 / 3, 1: 1 / 3, 3: 1 / 3}
    assert kept([1, 5, 9, -2], temperature=temperature, banned_ids=(2,)) == pytest.approx(wanted)


def test_extreme_logits_are_sampled_without_overflow():
    assert kept([3e38, -3e38, -np.inf]) == {0: 1.0}


@pytest.mark.parametrize("bad", [[1, np.nan], [np.nan, np.nan], [1, np.inf], [-np.inf, -np.inf]])
@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"top_k": 1}, {"top_p": 0.5}, {"banned_ids": (0,)}])
def test_damaged_logits_are_an_error_and_never_a_token(bad, options):
    with pytest.raises(NonFiniteError):
        kept(bad, **options)


def test_bans_that_leave_nothing_are_a_plain_error():
    for temperature in (0, 1):
        with pytest.raises(PromptError, match="leave no token"):
            kept([1, 2], temperature=temperature, banned_ids=(0, 1))


def test_penalties_that_overflow_are_an_error():
    with pytest.raises(NonFiniteError, match="infinite"):
        kept([1e30, 1], prompt=[0], repetition_penalty=1e-30)


@pytest.mark.parametrize(("name", "value"), [("banned_ids", (1, 5)), ("logit_bias", ((5, 1.0),)), ("stop_ids", (5,))])
def test_options_that_name_an_id_outside_the_vocabulary_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} holds the id 5; the vocabulary has ids 0 to 4"):
        kept(FIVE, **{name: value})


def test_the_model_s_logits_are_never_written_to():
    logits = FIVE.copy()
    logits.flags.writeable = False
    options = {
        "banned_ids": (1,),
        "repetition_penalty": 2.0,
        "frequency_penalty": 1.0,
        "top_k": 3,
        "top_p": 0.9,
        "min_p": 0.1,
    }
    kept_ids = distribution(logits, config(**options), [2], [3])
    assert draw(kept_ids, 0.5) in (0, 2, 4)


def test_draw_is_the_inverse_of_the_cumulative_distribution():
    three = Distribution(ids=np.array([4, 7, 9]), probabilities=np.array([0.25, 0.5, 0.25]))
    for number, id in [(0.0, 4), (0.2499, 4), (0.25, 7), (0.7499, 7), (0.75, 9), (1 - 2**-53, 9)]:
        assert draw(three, number) == id


def test_an_id_of_probability_zero_is_never_drawn_at_either_end():
    edges = Distribution(ids=np.arange(4), probabilities=np.array([0.0, 0.1, 0.9, 0.0]))
    assert draw(edges, 0.0) == 1
    assert draw(edges, 1 - 2**-53) == 2
    for n in range(1, 200):  # sums just below and above 1
        shares = Distribution(ids=np.arange(n + 1), probabilities=np.array([1 / n] * n + [0.0]))
        assert draw(shares, 1 - 2**-53) == n - 1


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0, 1, exclude_max=True))
def test_what_is_drawn_is_always_possible(seed, size, number):
    logits = np.random.default_rng(seed).normal(size=size).astype(np.float32) * 5
    options = config(top_k=seed % 7, top_p=0.8, min_p=0.01, temperature=0.7)
    chosen = distribution(logits, options)
    assert chosen.probabilities[chosen.ids.tolist().index(draw(chosen, number))] > 0


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.2}, {"temperature": 2.0}])
def test_draws_follow_the_distribution(options):
    chosen = distribution(FIVE, config(**options))
    n = 4000
    drawn = [draw(chosen, uniform(11, "sample", 0, position)) for position in range(n)]
    counts = np.array([drawn.count(id) for id in chosen.ids])
    wanted = n * chosen.probabilities
    assert counts.sum() == n
    assert ((counts - wanted) ** 2 / wanted).sum() < chi2.ppf(0.999, chosen.ids.size - 1)


def processors_of_transformers():
    """Yields options with the processors of transformers that mean the same; prompt 0 to 29, output 20 to 39."""
    import transformers as hf

    yield {"temperature": 0.35}, [hf.TemperatureLogitsWarper(0.35)]
    yield {"temperature": 3.0}, [hf.TemperatureLogitsWarper(3.0)]
    for k in (1, 7, 199, 200, 5000):
        yield {"top_k": k}, [hf.TopKLogitsWarper(min(k, 200))]
    for p in (0.05, 0.5, 0.99):
        yield {"top_p": p}, [hf.TopPLogitsWarper(p)]
        yield {"min_p": p}, [hf.MinPLogitsWarper(p)]
    for penalty in (0.5, 1.7):
        yield {"repetition_penalty": penalty}, [hf.RepetitionPenaltyLogitsProcessor(penalty)]
    yield {"banned_ids": (3, 8, 150)}, [hf.SuppressTokensLogitsProcessor([3, 8, 150])]
    bias = {(4,): 2.5, (9,): -7.0, (120,): 0.5}
    yield {"logit_bias": tuple((id, value) for (id,), value in bias.items())}, [hf.SequenceBiasLogitsProcessor(bias)]


@pytest.mark.parametrize("seed", range(2))
def test_each_step_is_that_of_transformers(seed):
    torch = pytest.importorskip("torch")
    from transformers import LogitsProcessorList

    logits = (np.random.default_rng(seed).normal(size=200) * 4).astype(np.float32)
    prompt, output = list(range(30)), list(range(20, 40))
    seen = torch.tensor([prompt + output])
    for options, processors in processors_of_transformers():
        scores = LogitsProcessorList(processors)(seen, torch.from_numpy(logits.copy())[None])
        wanted = scores[0].double().softmax(-1).numpy()
        ours = kept(logits, prompt, output, **options)
        assert set(ours) == set(np.flatnonzero(wanted)), options
        assert ours == pytest.approx({id: wanted[id] for id in ours}, rel=1e-5), options


def test_ties_at_the_border_are_where_transformers_differs():
    torch = pytest.importorskip("torch")
    from transformers import TopKLogitsWarper

    logits = np.array([2, 7, 2, 2, 1], np.float32)
    theirs = TopKLogitsWarper(2)(None, torch.from_numpy(logits)[None].clone())[0]
    assert torch.isfinite(theirs).nonzero()[:, 0].tolist() == [0, 1, 2, 3]  # all that tie
    assert set(kept(logits, top_k=2)) == {0, 1}  # as many as asked for


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_chain_is_that_of_transformers(seed):
    torch = pytest.importorskip("torch")
    import transformers as hf

    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=200) * 4).astype(np.float32)
    prompt, output = rng.integers(0, 200, 30), rng.integers(0, 200, 20)
    chain = hf.LogitsProcessorList(
        [
            hf.RepetitionPenaltyLogitsProcessor(1.3),
            hf.TemperatureLogitsWarper(0.7),
            hf.TopKLogitsWarper(40),
            hf.TopPLogitsWarper(0.9),
            hf.MinPLogitsWarper(0.02),
        ]
    )
    seen = torch.from_numpy(np.concatenate([prompt, output]))[None]
    wanted = chain(seen, torch.from_numpy(logits)[None])[0].double().softmax(-1).numpy()
    options = config(repetition_penalty=1.3, temperature=0.7, top_k=40, top_p=0.9, min_p=0.02)
    ours = distribution(logits, options, prompt, output)
    assert ours.ids.tolist() == np.flatnonzero(wanted).tolist()
    assert ours.probabilities == pytest.approx(wanted[ours.ids], rel=1e-5)


def test_explaining_changes_nothing_and_tells_what_each_filter_removed():
    options = config(banned_ids=(0,), top_k=3, top_p=0.6, min_p=0.9)
    plain, told = distribution(FIVE, options), distribution(FIVE, options, explain=True)
    assert plain.removals == ()
    assert np.array_equal(plain.ids, told.ids) and np.array_equal(plain.probabilities, told.probabilities)
    summary = [(removal.filter, removal.count, removal.examples) for removal in told.removals]
    # Left: 0.25, 0.2, 0.1, 0.05. Top-k drops id 3, top-p 0.6 of 0.55 keeps 0.45, min-p 0.9 drops 0.2 beside 0.25.
    assert summary == [("bans", 1, (0,)), ("top_k", 1, (3,)), ("top_p", 1, (1,)), ("min_p", 1, (4,))]
