"""A corpus and a model so small that a whole run takes a fraction of a second."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nextok.train import RunOptions, run_options

TINY_MODEL = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": 16}


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 9,000 characters in which every word predicts the next."""
    draw = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs"]
    text = " ".join(words[(i + draw.randrange(2)) % len(words)] for i in range(2500))
    path = tmp_path_factory.mktemp("text") / "cats.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def make_options(text_file: Path, tmp_path: Path) -> Callable[..., RunOptions]:
    """Returns options of a tiny run; keywords override `train`, `model` and the options themselves."""

    def make(out: str = "run", *, train: dict[str, Any] | None = None, **values: Any) -> RunOptions:
        base = {"batch_size": 4, "warmup_steps": 2, "sample_tokens": 0, "log_every_steps": 1, "seed": 7, "threads": 1}
        return run_options(
            {
                "sources": (str(text_file),),
                "out": str(tmp_path / out),
                "recipe": "classic",
                "tokenizer": "char",
                "steps": 20,
                "model": TINY_MODEL | values.pop("model", {}),
                "train": base | (train or {}),
                **values,
            }
        )

    return make
