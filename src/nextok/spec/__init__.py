"""What a model is, in numbers alone: its options, presets, parameter shapes and exact counts. No arrays, no torch.

The letters every room uses for axes:

| letter | axis | letter | axis |
|---|---|---|---|
| B | batch | K | width of one head |
| T | query positions | F | width of the feed-forward layer |
| S | key positions | V | vocabulary |
| D | width of the model | L | layers |
| H | heads | G | key and value heads |
"""

from nextok.spec.config import Architecture, ModelConfig
from nextok.spec.count import Counts, count
from nextok.spec.hooks import hook_names, select_hooks
from nextok.spec.presets import PRESETS, RECIPES, architecture, find_preset, preset_config, read_recipe
from nextok.spec.shapes import parameter_shapes

__all__ = [
    "PRESETS",
    "RECIPES",
    "Architecture",
    "Counts",
    "ModelConfig",
    "architecture",
    "count",
    "find_preset",
    "hook_names",
    "parameter_shapes",
    "preset_config",
    "read_recipe",
    "select_hooks",
]
