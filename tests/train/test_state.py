"""State to a snapshot and back: nothing lost, nothing of another model taken."""

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import build
from nextok.spec import preset_config
from nextok.train.config import TrainConfig
from nextok.train.optim import Optimizer
from nextok.train.state import TrainState


def state_of(preset: str, seed: int) -> TrainState:
    model = build(preset_config(preset), seed)
    return TrainState(model=model, optimizer=Optimizer(model, TrainConfig()))


def test_everything_that_changes_comes_back() -> None:
    one = state_of("lesson-a", 1)
    for parameter in one.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    one.optimizer.step(1e-3)
    one.step, one.updates, one.best_loss, one.best_step, one.seconds = 5, 1, 1.25, 4, 2.5
    other = state_of("lesson-a", 2)
    other.restore(one.to_snapshot())
    assert (other.step, other.updates, other.best_loss, other.best_step, other.seconds) == (5, 1, 1.25, 4, 2.5)
    again = other.to_snapshot()
    for group, arrays in one.to_snapshot().arrays.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, again.arrays[group][name])


def test_state_without_an_evaluation_or_a_step_can_be_saved() -> None:
    fresh = state_of("lesson-a", 1)
    other = state_of("lesson-a", 2)
    other.restore(fresh.to_snapshot())
    assert (other.step, other.best_loss) == (0, None)


def test_snapshot_of_another_model_is_refused() -> None:
    with pytest.raises(CheckpointError, match="of another model"):
        state_of("nano", 1).restore(state_of("lesson-a", 1).to_snapshot())
