"""Prints what a benchmark found and keeps it with the machine; the machine's limits are in `nextok.benchmark`."""

import json
from pathlib import Path
from typing import Any

import torch

from nextok import machine

RESULTS = Path(__file__).with_name("results")


def report(name: str, rows: list[dict[str, Any]]) -> None:
    """Prints the rows and keeps them, with the machine, in results/NAME.json."""
    for row in rows:
        cells = (f"{key} {value:,.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
        print("  ".join(cells))
    RESULTS.mkdir(exist_ok=True)
    result = {
        "machine": machine.describe(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "rows": rows,
    }
    RESULTS.joinpath(f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
