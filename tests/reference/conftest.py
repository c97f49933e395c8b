"""Small NumPy models whose weights all matter, and slopes measured instead of derived."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from nextok.reference import DIALECTS, Dialect
from nextok.spec import ModelConfig, parameter_shapes

Floats = NDArray[np.float64]
SIZE = {"vocab_size": 11, "n_layers": 2, "d_model": 8, "n_heads": 2, "context": 6}
# Each part that the NumPy model writes out, once; a dialect where the config cannot say it.
CASES: dict[str, tuple[dict[str, object], str]] = {
    "gpt2": ({}, "gpt2"),
    "erf, untied": ({"mlp": "gelu", "tied_head": False}, "lesson-a"),
    "relu, no biases": ({"mlp": "relu", "bias": False}, "gpt2"),
    "relu2, capped": ({"mlp": "relu2", "logit_softcap": 1.5}, "gpt2"),
    "wide heads, own width": ({"d_head": 3, "d_ff": 5, "norm_eps": 1e-3}, "gpt2"),
    "one of each": ({"n_layers": 1, "n_heads": 1}, "gpt2"),
    "no mask": ({"mask": "none", "tied_head": False}, "gpt2"),
    "lesson-b": ({"mlp": "relu", "bias": False, "n_heads": 1, "norm_eps": 1e-2}, "lesson-b"),
}


CAUSAL = {name: case for name, case in CASES.items() if case[0].get("mask") != "none"}
Case = tuple[ModelConfig, dict[str, Floats], Dialect]


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    """Returns one small model after another: config, float64 weights, dialect."""
    return _built(*request.param)


@pytest.fixture(params=CAUSAL.values(), ids=CAUSAL.keys())
def causal(request: pytest.FixtureRequest) -> Case:
    """Returns the same without the one that cannot generate."""
    return _built(*request.param)


@pytest.fixture
def gpt2() -> tuple[ModelConfig, dict[str, Floats]]:
    """Returns a small model with GPT-2's parts."""
    config = ModelConfig(**SIZE)
    return config, _random_weights(config)


@pytest.fixture
def random_weights() -> Callable[[ModelConfig], dict[str, Floats]]:
    """Returns what makes float64 weights for a config: no zero biases and no gains of 1, which would hide faults."""
    return _random_weights


@pytest.fixture
def slope() -> Callable[[Callable[[Floats], float], Floats, Floats], float]:
    """Returns what measures d f / d t along a direction, by the central difference: truth to about 1e-10 here."""

    def measure(f: Callable[[Floats], float], x: Floats, direction: Floats, step: float = 1e-5) -> float:
        return float(f(x + step * direction) - f(x - step * direction)) / (2 * step)

    return measure


def _built(parts: dict[str, object], dialect: str) -> Case:
    config = ModelConfig(**{**SIZE, **parts})
    return config, _random_weights(config), DIALECTS[dialect]


def _random_weights(config: ModelConfig) -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    centres = {name: 1.0 if "norm" in name and name.endswith("weight") else 0.0 for name in parameter_shapes(config)}
    return {name: rng.normal(centres[name], 0.4, shape) for name, shape in parameter_shapes(config).items()}
