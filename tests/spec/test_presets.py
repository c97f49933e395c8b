"""The table of sizes, row by row, and what a recipe or a single option changes in it."""

import pytest

from nextok.config import from_mapping
from nextok.errors import ConfigError, ModelConfigError
from nextok.spec import PRESETS, RECIPES, Architecture, ModelConfig, architecture, count, preset_config, read_recipe


@pytest.mark.parametrize(
    ("preset", "layers", "width", "heads", "context", "vocabulary"),
    [
        ("lesson-a", 2, 64, 4, 8, 50),
        ("nano", 4, 128, 4, 64, 65),
        ("stretch", 6, 256, 8, 256, 65),
        ("gpt1", 12, 768, 12, 512, 40_478),
        ("gpt2", 12, 768, 12, 1024, 50_257),
        ("gpt2-medium", 24, 1024, 16, 1024, 50_257),
        ("gpt2-large", 36, 1280, 20, 1024, 50_257),
        ("gpt2-xl", 48, 1600, 25, 1024, 50_257),
        ("gpt3", 96, 12_288, 96, 2048, 50_257),
    ],
)
def test_sizes_are_those_of_the_papers(
    preset: str, layers: int, width: int, heads: int, context: int, vocabulary: int
) -> None:
    config = preset_config(preset, "classic")
    assert (config.n_layers, config.d_model, config.n_heads) == (layers, width, heads)
    assert (config.context, config.vocab_size, config.d_ff) == (context, vocabulary, 4 * width)


@pytest.mark.parametrize("size", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_gpt2_has_heads_of_64_and_its_own_block(size: str) -> None:
    config = preset_config(size)
    assert config.d_head == 64
    assert (config.mlp, config.norm, config.norm_placement, config.norm_eps) == (
        "gelu_tanh",
        "layernorm",
        "before",
        1e-5,
    )
    assert (config.position, config.bias, config.tied_head, config.init) == ("learned", True, True, "gpt2")


def test_gpt1_normalises_after_the_sum() -> None:
    assert preset_config("gpt1").norm_placement == "after"


def test_the_lesson_model_has_the_lesson_block() -> None:
    config = preset_config("lesson-a")
    assert (config.mlp, config.tied_head, config.init) == ("gelu", False, "torch")
    assert (config.bias, config.norm_eps, config.dropout) == (True, 1e-5, 0.0)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("recipe", [None, *RECIPES])
def test_every_preset_can_be_built_with_every_recipe(preset: str, recipe: str | None) -> None:
    assert count(preset_config(preset, recipe)).parameters > 0
    assert PRESETS[preset].about


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_a_table_of_known_options(recipe: str) -> None:
    model = read_recipe(recipe)["model"]
    assert from_mapping(Architecture, model)
    size = {"n_layers", "d_model", "n_heads", "context"}
    assert not size & set(model), "a recipe sets the block, a preset the size"


def test_the_classic_recipe_is_gpt2s_block() -> None:
    assert architecture("gpt2", "classic") == architecture("gpt2")


def test_the_modern_recipe_is_qwen3s_block_at_the_same_size() -> None:
    config = preset_config("nano", "modern")
    assert (config.norm, config.position, config.mlp, config.qk_norm) == ("rmsnorm", "rope", "swiglu", True)
    assert (config.bias, config.tied_head) == (False, False)
    assert (config.n_layers, config.d_model, config.vocab_size) == (4, 128, 65)


def test_a_preset_without_a_named_recipe_goes_with_its_own() -> None:
    assert architecture("nano") == architecture("nano", "modern")
    assert architecture("stretch") == architecture("stretch", "classic")


def test_a_named_recipe_replaces_the_presets_own_block() -> None:
    config = preset_config("lesson-a", "classic")
    assert (config.mlp, config.tied_head, config.init) == ("gelu_tanh", True, "gpt2")
    assert (config.d_model, config.context) == (64, 8)


def test_single_options_override_preset_and_recipe() -> None:
    chosen = architecture("nano", "modern", {"n_layers": 2, "mlp": "relu", "dropout": 0.1})
    assert (chosen.n_layers, chosen.mlp, chosen.dropout, chosen.position) == (2, "relu", 0.1, "rope")


def test_widths_follow_an_overridden_size() -> None:
    config = ModelConfig.of(architecture("nano", "classic", {"d_model": 32, "n_heads": 2}), 65)
    assert (config.d_head, config.d_ff, config.n_kv_heads) == (16, 128, 2)


def test_another_vocabulary_replaces_the_presets() -> None:
    assert preset_config("nano", vocab_size=7).vocab_size == 7
    with pytest.raises(ModelConfigError, match="vocab_size = 0"):
        preset_config("nano", vocab_size=0)


def test_unknown_names_are_refused_with_the_nearest_or_all_of_them() -> None:
    with pytest.raises(ConfigError, match="There is no preset 'gpt2-mediun'. Did you mean 'gpt2-medium'?"):
        architecture("gpt2-mediun")
    with pytest.raises(ConfigError, match="There is no recipe 'zzz'. Known recipes: classic, modern"):
        architecture("nano", "zzz")
    with pytest.raises(ConfigError, match="There is no recipe '../../x'"):
        read_recipe("../../x")
    with pytest.raises(ConfigError, match="Unknown option 'n_layer' in model. Did you mean 'n_layers'?"):
        architecture("nano", overrides={"n_layer": 2})
    with pytest.raises(ConfigError, match=r"model\.n_layers = 'two' is not a whole number"):
        architecture("nano", overrides={"n_layers": "two"})
