"""Loss curves that every change of the code must reproduce, but for the last digits that another processor may change.

A change that is meant to change them writes them again: `NEXTOK_WRITE_GOLDEN=1 pytest tests/golden`, and says why.
"""

import json
import os
import random
from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory, read_metrics
from nextok.train import run, run_options

CURVES = Path(__file__).with_name("curves.json")
RECIPES = ("classic", "modern", "speedrun")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs"]


def curve(recipe: str, folder: Path) -> list[float]:
    """Returns the training loss of each step, and the validation loss at the end."""
    draw = random.Random(0)
    text = " ".join(WORDS[(at + draw.randrange(2)) % len(WORDS)] for at in range(2500))
    (folder / "cats.txt").write_text(text, encoding="utf-8")
    options = run_options(
        {
            "sources": (str(folder / "cats.txt"),),
            "out": str(folder / recipe),
            "recipe": recipe,
            "tokenizer": "char",
            "steps": 40,
            "model": {"n_layers": 2, "d_model": 32, "n_heads": 2, "context": 32, "dropout": 0.1},
            "train": {
                "batch_size": 8,
                "warmup_steps": 5,
                "sample_tokens": 0,
                "log_every_steps": 1,
                "precision": "fp32",
            },
        }
    )
    run(options, cache=folder)
    rows = read_metrics(RunDirectory(folder / recipe).metrics)
    return [row["train_loss"] for row in rows] + [rows[-1]["val_loss"]]


@pytest.mark.parametrize("recipe", RECIPES)
def test_curve_is_the_golden_one(recipe: str, tmp_path: Path) -> None:
    found = curve(recipe, tmp_path)
    if os.environ.get("NEXTOK_WRITE_GOLDEN"):
        golden = json.loads(CURVES.read_text(encoding="utf-8")) if CURVES.exists() else {}
        golden[recipe] = [round(loss, 6) for loss in found]
        CURVES.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(CURVES.read_text(encoding="utf-8"))[recipe]
    assert len(found) == len(expected) == 41
    assert found == pytest.approx(expected, rel=1e-3)
    assert found[:5] == pytest.approx(expected[:5], rel=1e-5), "the first steps agree to more digits"
