"""What each of several processes computes in a test; see `crew.call_together`. Run by one process, the whole of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from nextok.checkpoint import RunDirectory
from nextok.corpus import Batch
from nextok.model import IGNORED, build
from nextok.spec import preset_config
from nextok.train import Processes, TrainConfig
from nextok.train.gradients import SummedGradients, distribute
from nextok.train.objective import choose_objective
from nextok.train.optim import Optimizer
from nextok.train.saving import restore_state, save_state
from nextok.train.sharded import whole, whole_weights
from nextok.train.state import TrainState
from nextok.train.step import train_step

CONFIG = replace(preset_config("lesson-a"), dropout=0.0, bias=False)  # a bias of keys has no gradient but rounding
COUNTS = (8, 1, 0, 5)
"""Targets that count in each of the four rows of the batch."""


def rows(first: int, count: int) -> Batch:
    """Some rows of a batch of four."""
    window_BT = np.random.default_rng(0).integers(0, 50, (4, 9))
    targets_BT = window_BT[:, 1:].copy()
    for row, valid in enumerate(COUNTS):
        targets_BT[row, valid:] = IGNORED
    part = slice(first, first + count)
    return Batch(inputs_BT=window_BT[part, :-1], targets_BT=targets_BT[part], starts_B=np.arange(4)[part])


def settings_of(parallel: str) -> TrainConfig:
    """Both optimizers: Muon for the blocks, AdamW for the rest."""
    return TrainConfig(parallel=parallel, batch_size=4, grad_clip=0.5, precision="fp32", optimizer="muon")  # type: ignore[arg-type]


def state_of(processes: Processes, parallel: str) -> tuple[TrainState, dict[str, np.ndarray]]:
    """A model after one step on the batch, in rows of one; and what that step measured, with its gradients."""
    settings = settings_of(parallel)
    model = build(CONFIG, 1)
    gradients = distribute(model, settings, processes)
    if isinstance(gradients, SummedGradients):
        gradients = SummedGradients(processes, model.parameters(), bucket_bytes=10_000)  # several buckets
    optimizer = Optimizer(model, settings)
    honest = optimizer.step
    found: dict[str, np.ndarray] = {}

    def look(lr: float) -> None:
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            found[f"grad/{name}"] = whole(parameter.grad).numpy().copy()
        honest(lr)

    optimizer.step = look  # type: ignore[method-assign]
    first, count = processes.share(4)
    pieces = [rows(at, 1) for at in range(first, first + count)]
    objective = choose_objective(model.train(), settings, pieces[0], [])
    result = train_step(
        model, objective, optimizer, pieces, lr=0.01, first_sample=0, config=settings, gradients=gradients
    )
    found |= {"loss": np.array(result.loss), "grad_norm": np.array(result.grad_norm)}
    return TrainState(model=model, optimizer=optimizer, step=1, updates=1), found


def one_step(processes: Processes, parallel: str) -> dict[str, np.ndarray]:
    """What one step measured, its gradients, and the weights after it."""
    state, found = state_of(processes, parallel)
    weights = {name: whole(parameter.detach()).numpy() for name, parameter in state.model.named_parameters()}
    return found | {f"weight/{name}": weight for name, weight in weights.items()}


def saved(processes: Processes, parallel: str, path: str) -> dict[str, np.ndarray]:
    """Saves the state after a step; the leading process returns its weights."""
    state, _ = state_of(processes, parallel)
    save_state(state, RunDirectory(Path(path)), processes, keep_last=1, best=False)
    return whole_weights(state.model, processes)


def restored(processes: Processes, parallel: str, path: str) -> dict[str, np.ndarray]:
    """Goes back to what was saved, and returns weights and moments, whole."""
    settings = settings_of(parallel)
    model = build(CONFIG, 2)
    distribute(model, settings, processes)
    state = TrainState(model=model, optimizer=Optimizer(model, settings))
    warnings = restore_state(state, RunDirectory(Path(path)), processes)
    assert (state.step, warnings) == (1, [])
    named: dict[str, torch.Tensor] = dict(model.named_parameters()) | state.optimizer.means()
    return {name.replace("/", "|"): whole(tensor.detach()).numpy() for name, tensor in named.items()}
