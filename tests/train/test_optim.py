"""AdamW: what decays, and its state as arrays."""

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import build, next_token_loss
from nextok.spec import preset_config
from nextok.train.config import TrainConfig
from nextok.train.optim import load_optimizer, make_optimizer, optimizer_arrays

CONFIG = preset_config("lesson-a")


def stepped(steps: int) -> tuple[torch.nn.Module, torch.optim.AdamW]:
    model = build(CONFIG, 1)
    optimizer = make_optimizer(model, TrainConfig())
    for step in range(steps):
        ids_BT = torch.arange(16).reshape(2, 8) + step
        next_token_loss(model(ids_BT), ids_BT + 1).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_matrices_decay_and_vectors_do_not() -> None:
    model, optimizer = stepped(0)
    decayed, free = optimizer.param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in decayed["params"]} == {2}
    assert {p.ndim for p in free["params"]} == {1}
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))


def test_decay_shrinks_a_matrix_without_gradient_and_leaves_a_bias() -> None:
    model, optimizer = stepped(0)
    weight, bias = model.blocks[0].mlp.up.weight, model.blocks[0].mlp.up.bias
    before_weight, before_bias = weight.detach().clone(), bias.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(weight, before_weight * (1 - 1e-3 * 0.1))
    assert torch.equal(bias, before_bias)


def test_state_comes_back_and_the_next_step_is_the_same_to_the_bit() -> None:
    model, optimizer = stepped(3)
    arrays = {name: array.copy() for name, array in optimizer_arrays(model, optimizer).items()}
    again, fresh = stepped(0)
    again.load_state_dict(model.state_dict())
    load_optimizer(again, fresh, arrays, updates=3)
    for both_model, both_optimizer in ((model, optimizer), (again, fresh)):
        ids_BT = torch.arange(16).reshape(2, 8)
        next_token_loss(both_model(ids_BT), ids_BT + 1).backward()
        both_optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_missing_moment_is_named() -> None:
    model, optimizer = stepped(1)
    arrays = optimizer_arrays(model, optimizer)
    del arrays["head.weight/exp_avg_sq"]
    with pytest.raises(CheckpointError, match=r"no head\.weight/exp_avg_sq"):
        load_optimizer(model, optimizer, arrays, updates=1)


def test_no_state_before_the_first_step() -> None:
    model, optimizer = stepped(0)
    assert optimizer_arrays(model, optimizer) == {}
    load_optimizer(model, optimizer, {}, updates=0)
    assert not optimizer.state
    assert all(isinstance(array, np.ndarray) for array in optimizer_arrays(*stepped(1)).values())
