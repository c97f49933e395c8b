"""Checkpoints of a run on one process or many: the leading process seals and names them.

Where every process holds the whole model, the leading one writes the snapshot. Where it is cut, each writes the rows it
holds into a file of its own, and the leading one puts them together. Any number of processes goes on from either.
"""

import shutil
from pathlib import Path

from torch import Tensor

from nextok.checkpoint import RunDirectory, Snapshot, Staged, find_snapshot, read_snapshot, save_snapshot, write_pieces
from nextok.files import disk_errors
from nextok.train.processes import Processes
from nextok.train.sharded import is_sharded, piece_of
from nextok.train.state import TrainState

_STAGING = ".shards.partial"  # in the run directory; of a killed run, the next one removes it


def save_state(state: TrainState, run: RunDirectory, processes: Processes, *, keep_last: int, best: bool) -> Path:
    """Returns the folder the state was saved to; all processes must save.

    Raises:
        DiskError: if it cannot be written; checkpoints before it are unchanged.
    """
    staging = run.path / _STAGING
    staged = _stage(state, staging, processes) if is_sharded(state.model) else None
    name = ""
    if processes.leads:
        snapshot = Snapshot(step=state.step, arrays={}, state=state.values()) if staged else state.to_snapshot()
        name = save_snapshot(run, snapshot, keep_last=keep_last, best=best, staged=staged).name
        shutil.rmtree(staging, ignore_errors=True)
    return run.checkpoints / processes.from_leader(name)


def restore_state(state: TrainState, run: RunDirectory, processes: Processes) -> list[str]:
    """Goes back to the last whole checkpoint, whoever wrote it, and returns warnings.

    The leading process alone reads all of it, to check it; each takes only what it will hold.

    Raises:
        CheckpointError: if none is whole, or it is of another model.
    """
    folder, warnings = find_snapshot(run) if processes.leads else (run.checkpoints, [])
    state.restore(read_snapshot(run.checkpoints / processes.from_leader(folder.name)))
    return warnings


def _stage(state: TrainState, staging: Path, processes: Processes) -> Staged:
    """Writes what this process holds, and returns the files of all."""
    with disk_errors(staging):
        if processes.leads:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
        processes.from_leader("made")
        tensors: dict[str, dict[str, Tensor]] = {
            "weights": dict(state.model.named_parameters()),
            "optimizer": state.optimizer.means(),
        }
        if state.average is not None:
            tensors["average"] = state.average.means()
        place = f"{processes.rank + 1:05d}-of-{processes.world:05d}"
        files = {f"{stem}-{place}.safetensors": named for stem, named in tensors.items()}
        seals = {
            name: write_pieces(staging / name, {each: piece_of(tensor) for each, tensor in named.items()})
            for name, named in files.items()
        }
    together: dict[str, dict[str, object]] = {}
    for each in processes.gathered(seals):
        together |= each
    return Staged(folder=staging, seals=together)
