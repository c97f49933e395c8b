"""What this machine can do at most, measured beside every benchmark so that figures become shares of a limit."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nextok import machine

RESULTS = Path(__file__).with_name("results")


def median_seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Returns the median time of the work after one run that does not count."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def matmul_flops_per_s(dtype: torch.dtype = torch.float32, size: int = 1536) -> float:
    """Returns the floating-point operations a second of a large square matrix product."""
    a, b = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    return 2 * size**3 / median_seconds(lambda: a @ b)


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
