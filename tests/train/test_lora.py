"""LoRA: the same model before the first step, the base untouched, and a plain model after merging."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nextok.corpus import Batch
from nextok.errors import ConfigError
from nextok.model import GPT, build, filled, weight_arrays
from nextok.spec import ModelConfig, count, parameter_shapes
from nextok.train.config import TrainConfig
from nextok.train.lora import (
    LoraConfig,
    LoraLinear,
    LoraTargets,
    add_lora,
    merged_arrays,
    trained_parameters,
    training_flops_per_token,
    write_adapters,
)
from nextok.train.objective import choose_objective
from nextok.train.optim import Optimizer
from nextok.train.step import train_step

RANK_3 = LoraConfig(rank=3, alpha=6.0)


def batch_of(config: ModelConfig) -> list[Batch]:
    windows_BT = np.random.default_rng(0).integers(0, config.vocab_size, (2, config.context + 1))
    return [Batch(inputs_BT=windows_BT[:, :-1], targets_BT=windows_BT[:, 1:], starts_B=np.zeros(2, np.int64))]


def trained(model: GPT, steps: int = 3) -> GPT:
    settings = TrainConfig(batch_size=2, precision="fp32")
    model.train()
    batch = batch_of(model.config)
    objective, optimizer = choose_objective(model, settings, batch[0], []), Optimizer(model, settings)
    for step in range(steps):
        train_step(model, objective, optimizer, batch, lr=0.05, first_sample=step, config=settings)
    return model.eval()


def logits(model: GPT) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.from_numpy(batch_of(model.config)[0].inputs_BT))


def adapted(model: GPT) -> GPT:
    narrow = model.config.d_model < 16
    add_lora(model, LoraConfig(rank=1, alpha=2.0) if narrow else RANK_3, seed=1)
    return model


def test_before_the_first_step_every_logit_is_the_bases_to_the_bit(any_model: GPT) -> None:
    before = logits(any_model)
    assert torch.equal(logits(adapted(any_model)), before)


def test_after_steps_the_base_is_unchanged_and_merged_is_unmerged(any_model: GPT) -> None:
    base = {name: array.copy() for name, array in weight_arrays(any_model).items()}
    before = logits(any_model)
    after = logits(trained(adapted(any_model)))
    assert not torch.allclose(after, before, atol=1e-2)
    now = weight_arrays(any_model)
    assert all(np.array_equal(now[name], array) for name, array in base.items())
    merged = filled(any_model.config, merged_arrays(any_model).items())
    torch.testing.assert_close(logits(merged), after, atol=1e-5, rtol=1e-4)


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        n_layers=2, d_model=16, n_heads=4, n_kv_heads=2, context=12, vocab_size=11, mlp="swiglu", d_ff=24
    )


def test_the_product_by_hand() -> None:
    base = torch.nn.Linear(2, 2)
    base.weight.data, base.bias.data = torch.eye(2), torch.tensor([1.0, 0.0])
    by_hand = LoraLinear(base, LoraConfig(rank=1, alpha=4.0))
    by_hand.lora_a.data, by_hand.lora_b.data = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5], [-1.0]])
    # x = (3, 1): A x = 5, B A x = (2.5, -5), scaled by 4: (10, -20); W x + b = (4, 1)
    assert by_hand(torch.tensor([3.0, 1.0])).tolist() == [14.0, -19.0]
    assert by_hand.merged().tolist() == [[3.0, 4.0], [-4.0, -7.0]]


@pytest.mark.parametrize(
    ("targets", "numbers"),
    [
        # rank x (in + out): qkv 16 -> 32, out 16 -> 16; up 16 -> 48, down 24 -> 16
        ("attention", 2 * 3 * (48 + 32)),
        ("mlp", 2 * 3 * (64 + 40)),
        ("all", 2 * 3 * (48 + 32 + 64 + 40)),
    ],
)
def test_only_the_adapters_of_the_chosen_maps_learn(config: ModelConfig, targets: LoraTargets, numbers: int) -> None:
    model = build(config, 1)
    add_lora(model, LoraConfig(rank=3, alpha=3.0, targets=targets), seed=1)
    assert trained_parameters(model) == numbers
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(name.endswith(("lora_a", "lora_b")) for name in learning)
    assert set(weight_arrays(model, trained=True)) == learning
    optimizer = Optimizer(model, TrainConfig())
    assert sum(p.numel() for group in optimizer.adam.param_groups for p in group["params"]) == numbers
    assert merged_arrays(model).keys() == parameter_shapes(config).keys()


def test_moments_of_adapters_alone_are_kept_and_come_back(config: ModelConfig) -> None:
    model = build(config, 1)
    add_lora(model, RANK_3, seed=1)
    settings, batch = TrainConfig(batch_size=2, precision="fp32"), batch_of(config)
    optimizer = Optimizer(model, settings)
    train_step(
        model,
        choose_objective(model, settings, batch[0], []),
        optimizer,
        batch,
        lr=0.1,
        first_sample=0,
        config=settings,
    )
    arrays = optimizer.arrays()
    assert len(arrays) == 2 * len(weight_arrays(model, trained=True))
    again = Optimizer(model, settings)
    again.load(arrays, updates=1)
    back = again.arrays()
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())


def test_draws_are_a_function_of_the_seed_and_keep_the_size_of_the_input() -> None:
    config = ModelConfig(n_layers=1, d_model=256, n_heads=4, context=4, vocab_size=5)
    drawn = []
    for seed in (1, 1, 2):
        model = build(config, 0)
        add_lora(model, LoraConfig(rank=64, alpha=1.0, targets="attention"), seed)
        drawn.append(weight_arrays(model, trained=True)["blocks.0.attn.qkv.lora_a"].copy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert drawn[0].std() == pytest.approx(1 / math.sqrt(256), rel=0.05)


def test_a_rank_above_the_narrowest_map_is_refused(config: ModelConfig) -> None:
    with pytest.raises(ConfigError, match=r"lora = 17 is above 16, the width of blocks\.0\.attn\.qkv"):
        add_lora(build(config, 1), LoraConfig(rank=17, alpha=1.0), seed=1)


def test_operations_of_a_step_leave_out_the_gradients_of_frozen_weights(config: ModelConfig) -> None:
    model = build(config, 1)
    counts = count(config)
    assert training_flops_per_token(model) == counts.training_flops_per_token
    add_lora(model, RANK_3, seed=1)
    spared = 2 * counts.matmul_parameters
    assert training_flops_per_token(model) == counts.training_flops_per_token - spared + 6 * trained_parameters(model)


def test_a_model_without_adapters_has_nothing_to_merge_or_write(config: ModelConfig, tmp_path: Path) -> None:
    model = build(config, 1)
    arrays = weight_arrays(model)
    merged = merged_arrays(model)
    assert all(np.array_equal(merged[name], arrays[name]) for name in arrays)
    write_adapters(tmp_path, model)
    assert not list(tmp_path.iterdir())
