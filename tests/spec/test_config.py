"""Numbers that do not fit together are refused before anything is built; the others settle every width."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.config import from_mapping, to_mapping
from nextok.errors import ConfigError, ModelConfigError
from nextok.spec import Architecture, ModelConfig
from nextok.spec.config import default_d_ff


def test_the_defaults_are_nanogpts_cpu_model_with_every_width_settled() -> None:
    config = ModelConfig(vocab_size=65)
    assert (config.n_layers, config.d_model, config.n_heads, config.context) == (4, 128, 4, 64)
    assert (config.n_kv_heads, config.d_head, config.d_ff) == (4, 32, 512)


def test_widths_that_are_given_are_kept() -> None:
    config = ModelConfig(vocab_size=5, d_model=10, n_heads=4, n_kv_heads=2, d_head=6, d_ff=7)
    assert (config.n_kv_heads, config.d_head, config.d_ff) == (2, 6, 7)
    assert (config.qkv_width, config.up_width) == ((4 + 2 * 2) * 6, 7)


def test_swiglu_makes_gate_and_value_from_one_matrix() -> None:
    config = ModelConfig(vocab_size=5, d_model=12, n_heads=4, mlp="swiglu")
    assert (config.d_ff, config.up_width) == (32, 64)


@pytest.mark.parametrize(("d_model", "d_ff"), [(12, 32), (13, 64), (128, 352), (384, 1024), (768, 2048), (4096, 10944)])
def test_swiglu_width_is_eight_thirds_in_whole_groups_of_32(d_model: int, d_ff: int) -> None:
    assert default_d_ff(d_model, "swiglu") == d_ff


@given(st.integers(min_value=1, max_value=20_000))
def test_swiglu_has_the_parameters_of_four_d_within_one_group(d_model: int) -> None:
    width = default_d_ff(d_model, "swiglu")
    assert width % 32 == 0
    assert 8 * d_model <= 3 * width < 8 * d_model + 3 * 32
    assert default_d_ff(d_model, "relu") == 4 * d_model


def test_only_a_norm_before_the_sublayer_needs_one_at_the_end() -> None:
    assert ModelConfig(vocab_size=5).has_final_norm
    assert not ModelConfig(vocab_size=5, norm_placement="after").has_final_norm


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_layers": 0}, "n_layers = 0 is below 1."),
        ({"d_model": -4}, "d_model = -4 is below 1."),
        ({"n_heads": 0}, "n_heads = 0 is below 1."),
        ({"context": 0}, "context = 0 is below 1."),
        ({"vocab_size": 0}, "vocab_size = 0 is below 1."),
        ({"n_kv_heads": -1}, "n_kv_heads = -1 is negative."),
        ({"d_head": -1}, "d_head = -1 is negative."),
        ({"d_ff": -1}, "d_ff = -1 is negative."),
        ({"n_kv_heads": 3}, "n_heads = 4 is not divisible by n_kv_heads = 3."),
        ({"n_kv_heads": 8}, "n_heads = 4 is not divisible by n_kv_heads = 8."),
        ({"position": "rope", "d_head": 5}, "rotary positions need an even head width; d_model = 128 with 4 heads"),
        ({"position": "rope", "d_model": 12}, "rotary positions need an even head width"),
        ({"norm_eps": 0.0}, "norm_eps = 0.0 is not above 0."),
        ({"norm_eps": math.nan}, "norm_eps = nan is not above 0."),
        ({"norm_eps": math.inf}, "norm_eps = inf is not above 0."),
        ({"rope_base": 1.0}, "rope_base = 1.0 is not above 1."),
        ({"rope_base": math.nan}, "rope_base = nan is not above 1."),
        ({"dropout": 1.0}, "dropout = 1.0 is not in [0, 1)."),
        ({"dropout": -0.1}, "dropout = -0.1 is not in [0, 1)."),
        ({"dropout": math.nan}, "dropout = nan is not in [0, 1)."),
        ({"logit_softcap": -1.0}, "logit_softcap = -1.0 is negative."),
        ({"logit_softcap": math.nan}, "logit_softcap = nan is negative."),
        ({"logit_softcap": math.inf}, "logit_softcap = inf is negative."),
        ({"norm": "rms"}, "norm = 'rms' is not one of layernorm, rmsnorm."),
        ({"norm_placement": "post"}, "norm_placement = 'post' is not one of before, after."),
        ({"position": "rotary"}, "position = 'rotary' is not one of learned, rope."),
        ({"mlp": "silu"}, "mlp = 'silu' is not one of gelu, gelu_tanh, relu, relu2, swiglu."),
        ({"mask": None}, "mask = None is not one of causal, none."),
        ({"init": "xavier"}, "init = 'xavier' is not one of gpt2, torch, quiet."),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_value(wrong: dict, said: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        ModelConfig(**{"vocab_size": 5, **wrong})
    assert caught.value.message.startswith(f"This model cannot be built: {said}")


def test_a_width_that_heads_do_not_divide_is_refused_with_the_nearest_that_they_do() -> None:
    with pytest.raises(ModelConfigError, match="d_model = 65 is not divisible by n_heads = 4") as caught:
        Architecture(d_model=65, n_heads=4)
    assert caught.value.hint == "With 4 heads the nearest widths are 64 and 68."
    with pytest.raises(ModelConfigError) as caught:
        Architecture(d_model=3, n_heads=4)
    assert caught.value.hint == "With 4 heads the nearest widths are 4."


def test_a_given_head_width_need_not_divide_the_model() -> None:
    assert ModelConfig(vocab_size=5, d_model=65, n_heads=4, d_head=16).qkv_width == 12 * 16


def test_a_vocabulary_completes_an_architecture() -> None:
    architecture = Architecture(d_model=12, n_heads=2, mlp="swiglu", mask="none")
    assert ModelConfig.of(architecture, 7) == ModelConfig(
        d_model=12, n_heads=2, mlp="swiglu", mask="none", vocab_size=7
    )
    with pytest.raises(ModelConfigError, match="vocab_size = 0"):
        ModelConfig.of(architecture, 0)


def test_options_are_frozen_and_given_by_name() -> None:
    config = ModelConfig(vocab_size=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        ModelConfig(5)  # type: ignore[misc]


def test_a_model_comes_back_from_its_plain_values(any_config: ModelConfig) -> None:
    assert from_mapping(ModelConfig, to_mapping(any_config)) == any_config


def test_a_saved_model_with_an_unknown_option_is_refused() -> None:
    saved = {**to_mapping(ModelConfig(vocab_size=5)), "n_embd": 64}
    with pytest.raises(ConfigError, match="Unknown option 'n_embd'"):
        from_mapping(ModelConfig, saved)
