"""Weights that are cut: whole tensors pass through as they are, and what is wrong with an array is said."""

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import build
from nextok.spec import preset_config
from nextok.train.processes import ALONE
from nextok.train.sharded import fill, held, is_sharded, only_looked_at, piece_of, whole, whole_model, whole_weights


def test_a_tensor_that_is_not_cut_is_its_own_whole() -> None:
    tensor = torch.arange(6.0).reshape(3, 2)
    assert whole(tensor) is tensor and held(tensor) is tensor
    rows, first = piece_of(tensor)
    np.testing.assert_array_equal(rows, tensor.numpy())
    assert first == 0


def test_a_model_that_is_not_cut_is_used_as_it_is() -> None:
    model = build(preset_config("lesson-a"), 0)
    weights = whole_weights(model, ALONE)
    assert not is_sharded(model) and whole_model(model, weights) is model
    assert weights.keys() == dict(model.named_parameters()).keys()
    with only_looked_at(model):
        assert not model(torch.zeros(1, 4, dtype=torch.int64)).requires_grad


def test_arrays_fill_tensors_of_their_shape_alone() -> None:
    tensor = torch.zeros(3, 2)
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    fill(tensor, {"a": array}, "a")
    np.testing.assert_array_equal(tensor.numpy(), array)
    with pytest.raises(CheckpointError, match="has no b"):
        fill(tensor, {"a": array}, "b")
    with pytest.raises(CheckpointError, match=r"a is \[2, 2\], not \[3, 2\]"):
        fill(tensor, {"a": array[:2]}, "a")
