"""Models near an N: known ones come back, every one is within 5 % and can be built, and what cannot is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import InputError
from nextok.scaling import COUNTINGS, Counting, ModelOptions, build, counted
from nextok.scaling.buildable import EMBEDDING_SHARE, TOLERANCE, VOCABULARIES
from nextok.spec import count, preset_config


def test_gpt2_small_comes_back() -> None:
    model = build(124_439_808, "total", ModelOptions(recipe="classic"))
    assert model.config == preset_config("gpt2", "classic")
    assert (model.N, model.off_by) == (124_439_808, 0)


def test_gpt3_comes_back() -> None:
    config = build(174_604_259_328, "total", ModelOptions(recipe="classic")).config
    assert (config.n_layers, config.d_model, config.n_heads) == (96, 12_288, 96)


@settings(max_examples=25)
@given(st.floats(5, 12), st.sampled_from(COUNTINGS), st.sampled_from(["classic", "modern"]))
def test_every_model_is_within_five_percent_and_counted_exactly(
    decades: float, counting: Counting, recipe: str
) -> None:
    N = 10**decades
    model = build(N, counting, ModelOptions(recipe=recipe))
    assert abs(model.N / N - 1) <= TOLERANCE
    assert model.counts == count(model.config)
    assert counted(count(model.config), counting) == model.N
    assert model.config.n_heads * model.config.d_head == model.config.d_model
    assert model.config.n_layers >= 2


@pytest.mark.parametrize("recipe", ["classic", "modern"])
def test_a_vocabulary_chosen_here_does_not_dominate(recipe: str) -> None:
    for decades in range(10, 24, 2):
        model = build(10 ** (decades / 2), "total", ModelOptions(recipe=recipe))
        assert model.config.vocab_size in VOCABULARIES
        assert model.embedding_share < 1.3 * EMBEDDING_SHARE


@pytest.mark.parametrize("N", [1e5, 1e7, 1e9, 1e11])
def test_a_shape_is_not_bent_out_of_all_proportion(N: float) -> None:
    for vocab_size in (256, 1024):
        config = build(N, "total", ModelOptions(vocab_size=vocab_size)).config
        assert 1 / 8 < config.d_model / config.n_layers / min(128, 2.3 * config.d_model**0.5) < 8


def test_what_is_settled_stays() -> None:
    config = build(3e6, "total", ModelOptions(vocab_size=777, context=100)).config
    assert (config.vocab_size, config.context) == (777, 100)


def test_the_share_of_tables_is_told() -> None:
    model = build(1.62e6, "total", ModelOptions(vocab_size=50_257))
    tables = 2 * 50_257 * model.config.d_model
    assert model.embedding_share == pytest.approx(tables / model.counts.parameters)
    assert model.embedding_share > 0.9


def test_a_vocabulary_too_large_is_refused_with_the_nearest_model() -> None:
    with pytest.raises(InputError, match="50,257") as caught:
        build(1e5, "total", ModelOptions(vocab_size=50_257))
    assert "smaller --vocab-size" in caught.value.hint


@pytest.mark.parametrize("N", [10.0, 1e15])
def test_sizes_beyond_all_models_are_refused(N: float) -> None:
    with pytest.raises(InputError, match="no model within 5%"):
        build(N, "total")


@pytest.mark.parametrize("options", [{"vocab_size": 0}, {"context": -1}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="below 1"):
        ModelOptions(**options)  # type: ignore[arg-type]
