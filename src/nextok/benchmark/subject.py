"""What is measured: a model on the disk, or the shape of a preset with random weights, whose values cost no time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok import machine, units
from nextok.engine import PackedModel, Precision, pack_model
from nextok.engine.plan import plan
from nextok.errors import ConfigError
from nextok.interop import open_runnable, summarise
from nextok.spec import PRESETS, ModelConfig, parameter_shapes, preset_config

_STD = 0.02
_DRAWN = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A model that can be packed again and again."""

    name: str
    """The preset, or the path."""
    config: ModelConfig
    """What it is."""
    random: bool
    """Whether its weights mean nothing."""
    weights: Callable[[], Iterator[tuple[str, NDArray[Any]]]]
    """Yields native name and array of each weight, one at a time."""

    def pack(self, precision: Precision) -> PackedModel:
        """Returns it packed for the engine.

        Raises:
            ConfigError: if it does not fit into the memory that is free.
        """
        self.check_memory(precision)
        return pack_model(self.config, self.weights(), precision)

    def check_memory(self, precision: Precision) -> None:
        """Refuses what would not fit, before anything is read or drawn.

        Raises:
            ConfigError: with both sizes.
        """
        needed, free = plan(self.config, precision).arena_bytes, machine.available_memory_bytes()
        if free is not None and needed > free:
            raise ConfigError(
                f"{self.name} takes {units.format_bytes(needed)} in {precision}, and {units.format_bytes(free)} of "
                "memory are free.",
                "Measure a smaller model, or a precision of fewer bits.",
            )


def find_subject(model: str) -> Subject:
    """Returns the model of a preset's name, or the one at a path; what exists comes before a preset.

    Raises:
        CheckpointError: if there is no such model, or it cannot be read.
    """
    path = Path(model)
    if model in PRESETS and not path.exists():
        config = preset_config(model)
        return Subject(name=model, config=config, random=True, weights=lambda: random_weights(config))
    config, _ = summarise(path)
    return Subject(name=model, config=config, random=False, weights=lambda: open_runnable(path).arrays)


def random_weights(config: ModelConfig) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yields weights as a fresh GPT-2 has them, the same each time; a million numbers are drawn and used over again."""
    drawn = np.random.default_rng(0).standard_normal(_DRAWN, dtype=np.float32) * np.float32(_STD)
    for name, shape in parameter_shapes(config).items():
        if len(shape) == 2:
            yield name, np.resize(drawn, math.prod(shape)).reshape(shape)
        else:
            yield name, np.full(shape, 0.0 if name.endswith("bias") else 1.0, np.float32)
