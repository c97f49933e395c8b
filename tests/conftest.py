"""Fixtures for the whole suite: real data where it is at hand, a home for every test, a model of every kind."""

import os

# Tensors here are tiny. Set before torch is loaded, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

# Compiling the engine takes longer than all its tests: once for all of them, and for the processes that they start.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "engine"))

from collections.abc import Callable
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import numpy as np
import pytest

# Shapes in signatures are checked at run time here, and only here.
jaxtyping.install_import_hook(
    ["nextok.model", "nextok.reference", "nextok.decode", "nextok.loaded", "nextok.evals"], "shapes.check_shapes"
)

from nextok.spec import ModelConfig, parameter_shapes

if TYPE_CHECKING:
    from nextok.model import GPT

hypothesis.settings.register_profile("house", deadline=None)  # a busy machine is not a failure
hypothesis.settings.load_profile("house")

DATA_FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Returns the path of a real data file, or skips the test with the reason where it is absent."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("NEXTOK_TEST_DATA", DATA_FOLDER))
        path = folder / name
        if not path.is_file():
            pytest.skip(f"needs the data file {name}, which is not in {folder.name}/ (set NEXTOK_TEST_DATA)")
        return path

    return find


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every test an empty home and cache folder, so that none reads or leaves files of the user."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))


@pytest.fixture(scope="session")
def random_weights() -> Callable[[ModelConfig], dict[str, np.ndarray]]:
    """Returns what draws a different number for every weight of a model, so that nothing can trade places."""

    def draw(config: ModelConfig, seed: int = 0) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        return {
            name: generator.standard_normal(shape, dtype=np.float32) for name, shape in parameter_shapes(config).items()
        }

    return draw


# Each part of a model at least once, alone and in the company it keeps; laws hold for all of them.
_LLAMA = {"norm": "rmsnorm", "norm_eps": 1e-6, "position": "rope", "mlp": "swiglu", "bias": False}
MODELS: dict[str, dict[str, object]] = {
    "gpt2": {},
    "lesson": {"mlp": "gelu", "tied_head": False, "init": "torch"},
    "gpt1": {"norm_placement": "after"},
    "llama": {**_LLAMA, "n_kv_heads": 2, "tied_head": False},
    "qwen3": {**_LLAMA, "n_kv_heads": 2, "qk_norm": True},
    "one kv head": {"n_kv_heads": 1},
    "wide heads": {"d_head": 6, "position": "rope", "tied_head": False},
    "relu": {"mlp": "relu", "bias": False},
    "relu2, capped": {"mlp": "relu2", "logit_softcap": 2.0},
    "rmsnorm after, rope": {"norm": "rmsnorm", "norm_placement": "after", "position": "rope"},
    "learned, qk-norm": {"qk_norm": True, "n_kv_heads": 2, "mlp": "swiglu"},
    "one of each": {"n_layers": 1, "n_heads": 1, "d_model": 4, "d_ff": 5},
    "dropout": {"dropout": 0.5},
    "pairs": {"position": "rope", "bigrams": 70},
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def any_config(request: pytest.FixtureRequest) -> ModelConfig:
    """Returns one small model after another, until every part has been one of them."""
    size: dict[str, object] = {"n_layers": 2, "d_model": 16, "n_heads": 4, "context": 12, "vocab_size": 11}
    return ModelConfig(**{**size, **request.param})


@pytest.fixture
def any_model(any_config: ModelConfig) -> "GPT":
    """Returns the same with weights that all matter: no zero biases, no gains of 1, and large position vectors."""
    import torch

    from nextok.model import build

    model = build(any_config, seed=0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            spread = 2.0 if name in ("embed.positions.weight", "embed.bigrams.weight") else 0.3
            parameter.normal_(centre, spread, generator=generator)
    return model
