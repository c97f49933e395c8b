"""AdamW and Muon: what each changes, what decays, and their state as arrays."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.model import GPT, build, next_token_loss
from nextok.spec import preset_config
from nextok.train.config import TrainConfig
from nextok.train.optim import Optimizer

CONFIG = preset_config("lesson-a")
ADAMW, MUON = TrainConfig(precision="fp32"), TrainConfig(precision="fp32", optimizer="muon")
BOTH = pytest.mark.parametrize("settings", [ADAMW, MUON], ids=["adamw", "muon"])


def learn(model: GPT, optimizer: Optimizer, step: int = 0) -> None:
    ids_BT = torch.arange(16).reshape(2, 8) + step
    next_token_loss(model(ids_BT), ids_BT + 1).backward()
    optimizer.step(1e-3)
    optimizer.zero_grad()


def stepped(steps: int, settings: TrainConfig = ADAMW) -> tuple[GPT, Optimizer]:
    model = build(CONFIG, 1)
    optimizer = Optimizer(model, settings)
    for step in range(steps):
        learn(model, optimizer, step)
    return model, optimizer


def test_matrices_decay_and_vectors_do_not() -> None:
    model, optimizer = stepped(0)
    decayed, free = optimizer.adam.param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in decayed["params"]} == {2}
    assert {p.ndim for p in free["params"]} == {1}
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))


@BOTH
def test_decay_shrinks_a_matrix_without_gradient_and_leaves_a_bias(settings: TrainConfig) -> None:
    model, optimizer = stepped(0, settings)
    weight, bias = model.blocks[0].mlp.up.weight, model.blocks[0].mlp.up.bias
    before_weight, before_bias = weight.detach().clone(), bias.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(1e-3)
    lr = settings.muon_lr if optimizer.muon else 1e-3
    torch.testing.assert_close(weight, before_weight * (1 - lr * 0.1))
    assert torch.equal(bias, before_bias)


def test_muon_takes_the_matrices_of_the_blocks_and_adamw_the_rest() -> None:
    model, optimizer = stepped(0, MUON)
    assert optimizer.muon is not None
    names = {parameter: name for name, parameter in model.named_parameters()}
    matrices = {names[matrix] for matrix in optimizer.muon.means}
    assert matrices == {name for name in names.values() if name.startswith("blocks.") and name.endswith("weight")} - {
        name for name in names.values() if "norm" in name
    }
    rest = {names[p] for group in optimizer.adam.param_groups for p in group["params"]}
    assert matrices | rest == {*names.values()} and not matrices & rest


def test_both_rates_follow_one_schedule() -> None:
    moved = {}
    for share in (1.0, 0.5):
        model, optimizer = stepped(0, replace(MUON, weight_decay=0.0))
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        ids_BT = torch.arange(16).reshape(2, 8)
        next_token_loss(model(ids_BT), ids_BT + 1).backward()
        optimizer.step(MUON.lr * share)
        moved[share] = {name: (weight - before[name]).detach() for name, weight in model.named_parameters()}
    for name, whole in moved[1.0].items():
        torch.testing.assert_close(moved[0.5][name] * 2, whole, rtol=1e-3, atol=1e-6, msg=name)


def test_what_needs_no_gradient_is_left_alone() -> None:
    model = build(CONFIG, 1)
    model.head.weight.requires_grad_(False)  # type: ignore[union-attr]
    before = model.head.weight.detach().clone()  # type: ignore[union-attr]
    optimizer = Optimizer(model, ADAMW)
    learn(model, optimizer)
    assert torch.equal(model.head.weight, before)  # type: ignore[union-attr, arg-type]
    assert not any(name.startswith("head.") for name in optimizer.arrays())


@BOTH
def test_state_comes_back_and_the_next_step_is_the_same_to_the_bit(settings: TrainConfig) -> None:
    model, optimizer = stepped(3, settings)
    arrays = {name: array.copy() for name, array in optimizer.arrays().items()}
    again, fresh = stepped(0, settings)
    again.load_state_dict(model.state_dict())
    fresh.load(arrays, updates=3)
    learn(model, optimizer)
    learn(again, fresh)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize(
    ("settings", "missing"), [(ADAMW, "head.weight/exp_avg_sq"), (MUON, "blocks.0.mlp.up.weight/momentum")]
)
def test_missing_mean_is_named(settings: TrainConfig, missing: str) -> None:
    _, optimizer = stepped(1, settings)
    arrays = optimizer.arrays()
    del arrays[missing]
    with pytest.raises(CheckpointError, match=f"no {missing}"):
        optimizer.load(arrays, updates=1)


@BOTH
def test_no_state_before_the_first_step(settings: TrainConfig) -> None:
    _, optimizer = stepped(0, settings)
    assert optimizer.arrays() == {}
    optimizer.load({}, updates=0)
    assert not optimizer.adam.state
    assert all(isinstance(array, np.ndarray) for array in stepped(1, settings)[1].arrays().values())
