"""The named sizes and recipes, as data: a preset is a row of numbers, a recipe a TOML file of at most a screen.

A preset sets layers, width, heads and context; a recipe sets the block type and the training settings. Single options
override both. Each preset names the recipe it goes with where the user names none. Nothing anywhere depends on a name:
what a name stands for is written out here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from nextok import config as options
from nextok.errors import ConfigError
from nextok.spec.config import Architecture, ModelConfig

RECIPES = ("classic", "modern", "speedrun")

_GPT1_BLOCK = {"norm_placement": "after"}
_LESSON_BLOCK = {"mlp": "gelu", "tied_head": False, "init": "torch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """One row of the table of sizes."""

    n_layers: int
    d_model: int
    n_heads: int
    context: int
    vocab_size: int
    """Vocabulary it is counted with where no tokenizer says otherwise."""
    recipe: str
    """The recipe it goes with unless another is named."""
    block: Mapping[str, object]
    """Parts that differ from that recipe's block; a recipe named by the user takes their place."""
    about: str
    """In a few words."""


def _row(
    n_layers: int, d_model: int, n_heads: int, context: int, vocab_size: int, recipe: str, about: str, **block: object
) -> Preset:
    return Preset(
        n_layers=n_layers,
        d_model=d_model,
        n_heads=n_heads,
        context=context,
        vocab_size=vocab_size,
        recipe=recipe,
        block=block,
        about=about,
    )


PRESETS: Mapping[str, Preset] = {
    #                  L     D   H     T      V
    "lesson-a": _row(2, 64, 4, 8, 50, "classic", "TinyGPT of the GPT lesson", **_LESSON_BLOCK),
    "nano": _row(4, 128, 4, 64, 65, "modern", "nanoGPT's CPU size"),
    "quick": _row(4, 128, 4, 128, 2048, "modern", "what two minutes on two cores can train"),
    "stretch": _row(6, 256, 8, 256, 65, "classic", "the lesson's stretch task"),
    "gpt1": _row(12, 768, 12, 512, 40_478, "classic", "GPT (2018)", **_GPT1_BLOCK),
    "gpt2": _row(12, 768, 12, 1024, 50_257, "classic", "GPT-2 small"),
    "gpt2-medium": _row(24, 1024, 16, 1024, 50_257, "classic", "GPT-2 medium"),
    "gpt2-large": _row(36, 1280, 20, 1024, 50_257, "classic", "GPT-2 large"),
    "gpt2-xl": _row(48, 1600, 25, 1024, 50_257, "classic", "GPT-2 XL"),
    "gpt3": _row(96, 12_288, 96, 2048, 50_257, "classic", "GPT-3 (2020), to count only"),
}


def architecture(preset: str, recipe: str | None = None, overrides: Mapping[str, object] | None = None) -> Architecture:
    """Returns the preset's size with the recipe's block, and single options on top.

    Raises:
        ConfigError: for a name that does not exist, with the nearest one.
        ModelConfigError: if the numbers do not fit together.
    """
    row = find_preset(preset)
    size = {name: getattr(row, name) for name in ("n_layers", "d_model", "n_heads", "context")}
    block = read_recipe(recipe or row.recipe)["model"] | ({} if recipe else row.block)
    return options.from_mapping(Architecture, {**size, **block, **(overrides or {})}, "model")


def find_preset(name: str) -> Preset:
    """Returns the row of that name.

    Raises:
        ConfigError: if there is none, with the nearest name.
    """
    if name not in PRESETS:
        raise _unknown("preset", name, PRESETS)
    return PRESETS[name]


def preset_config(preset: str, recipe: str | None = None, *, vocab_size: int | None = None) -> ModelConfig:
    """Returns the whole model of a preset, with its own vocabulary unless another is given."""
    chosen = architecture(preset, recipe)
    return ModelConfig.of(chosen, PRESETS[preset].vocab_size if vocab_size is None else vocab_size)


def read_recipe(name: str) -> dict[str, Any]:
    """Returns the tables `model`, `run` and `train` of a recipe that ships with the package.

    Raises:
        ConfigError: if there is no such recipe.
    """
    if name not in RECIPES:
        raise _unknown("recipe", name, RECIPES)
    with resources.as_file(resources.files("nextok") / "recipes" / f"{name}.toml") as path:
        return options.read_toml(Path(path))


def _unknown(kind: str, name: str, known: Any) -> ConfigError:
    near = options.unknown_name(name, known)
    return ConfigError(f"There is no {kind} {name!r}.", near.hint.replace("names:", f"{kind}s:"))
