"""A few runs of a fraction of a second: two recipes, several seeds, another tokenizer, another text."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nextok.train import run, run_options

TINY = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": 16}
MakeRun = Callable[..., Path]


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Returns what trains a run once a session: keywords are options, `train` and `model` tables of them."""
    folder = tmp_path_factory.mktemp("runs")
    draw = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs"]
    texts = {
        "cats": " ".join(words[(i + draw.randrange(2)) % len(words)] for i in range(2500)),
        "alphabet": "abcdefghijklmnop " * 500,
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def make(name: str, *, text: str = "cats", **values: Any) -> Path:
        if not (folder / name).exists():
            train = {"batch_size": 4, "warmup_steps": 2, "sample_tokens": 0, "log_every_steps": 5, "threads": 1}
            options = {
                "sources": (str(folder / f"{text}.txt"),),
                "out": str(folder / name),
                "recipe": "classic",
                "tokenizer": "char",
                "steps": 40,
                **values,
                "model": TINY | values.get("model", {}),
                "train": train | {"lr": 1e-2} | values.get("train", {}),
            }
            run(run_options(options), cache=folder)
        return folder / name

    return make
