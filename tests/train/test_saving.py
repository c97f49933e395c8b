"""Checkpoints of several processes: whoever wrote them, any number of processes goes on from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crew import call_together
from nextok.checkpoint import RunDirectory, load_snapshot
from nextok.train.processes import ALONE
from shares import restored, saved


def together(function: Callable, world: int, folder: Path, parallel: str) -> list[dict[str, np.ndarray]]:
    run = str(folder / "my run é")
    return call_together(function, world, folder, parallel, run) if world > 1 else [function(ALONE, parallel, run)]


@pytest.mark.parametrize(
    ("writers", "parallel", "readers", "other"),
    [(4, "fsdp", 2, "fsdp"), (2, "fsdp", 1, "ddp"), (1, "ddp", 2, "fsdp"), (2, "ddp", 1, "ddp")],
)
def test_what_some_wrote_others_read(writers: int, parallel: str, readers: int, other: str, tmp_path: Path) -> None:
    run = tmp_path / "my run é"
    run.mkdir()
    weights = together(saved, writers, tmp_path, parallel)[0]
    answers = together(restored, readers, tmp_path, other)
    snapshot, _ = load_snapshot(RunDirectory(run))
    stored = {name: array for named in snapshot.arrays.values() for name, array in named.items()}
    matrices = sum(name.startswith("blocks.") and weight.ndim == 2 for name, weight in weights.items())
    assert len(stored) == 3 * len(weights) - matrices, "Muon keeps one mean of a matrix, AdamW two of the rest"
    for name, weight in weights.items():
        np.testing.assert_array_equal(stored[name], weight, err_msg=name)
    for answer in answers:
        for name, array in stored.items():
            np.testing.assert_array_equal(answer[name.replace("/", "|")], array, err_msg=name)
    assert sorted(path.name for path in run.iterdir()) == ["checkpoints"]
