"""First weights are a function of config and seed, and of nothing else."""

import math

import pytest
import torch

from nextok.model import GPT, build, empty
from nextok.spec import ModelConfig, parameter_shapes, preset_config


def same(one: GPT, other: GPT) -> bool:
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_the_same_seed_builds_the_same_model_whatever_was_drawn_before(any_config: ModelConfig) -> None:
    one = build(any_config, seed=3)
    torch.rand(5)
    assert same(one, build(any_config, seed=3))
    assert not same(one, build(any_config, seed=4))


def test_building_leaves_the_global_generator_where_it_was(any_config: ModelConfig) -> None:
    before = torch.get_rng_state()
    build(any_config, seed=3)
    empty(any_config)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_are_float32_on_the_cpu_with_the_shapes_of_the_table(any_config: ModelConfig) -> None:
    for model in (build(any_config, seed=0), empty(any_config)):
        assert {name: tuple(each.shape) for name, each in model.named_parameters()} == parameter_shapes(any_config)
        assert all(each.dtype == torch.float32 and each.device.type == "cpu" for each in model.parameters())
        assert all(each.requires_grad for each in model.parameters())


def test_gpt2_weights_have_the_spread_of_the_paper() -> None:
    config = ModelConfig(n_layers=8, d_model=64, n_heads=4, vocab_size=300, tied_head=False)
    for name, parameter in build(config, seed=0).named_parameters():
        residual = name.endswith(("attn.out.weight", "mlp.down.weight"))
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter))
        else:
            spread = 0.02 / math.sqrt(16) if residual else 0.02
            assert parameter.std().item() == pytest.approx(spread, rel=0.05), name
            assert abs(parameter.mean().item()) < 4 * spread / math.sqrt(parameter.numel()), name


def test_query_and_key_gains_start_at_one() -> None:
    weights = dict(build(ModelConfig(vocab_size=5, qk_norm=True), seed=0).named_parameters())
    assert torch.equal(weights["blocks.0.attn.q_norm.weight"], torch.ones(32))


def test_no_two_matrices_are_drawn_alike() -> None:
    config = ModelConfig(n_layers=3, vocab_size=128, tied_head=False, context=128)
    matrices = [each for each in build(config, seed=0).parameters() if each.ndim == 2]
    assert len({matrix[0, 0].item() for matrix in matrices}) == len(matrices)


def test_torch_weights_are_those_of_the_modules_under_the_global_seed() -> None:
    config = preset_config("lesson-a")
    with torch.random.fork_rng():
        torch.manual_seed(42)
        made = GPT(config)
    assert same(build(config, seed=42), made)


def test_a_first_loss_is_close_to_log_v_with_gpt2_weights() -> None:
    # mean 3.923 and sd 0.021 over seeds for V = 50: the band, not the point
    config = ModelConfig(n_layers=2, d_model=64, n_heads=4, context=8, vocab_size=50, mlp="gelu", tied_head=False)
    ids_BT = torch.randint(0, 50, (64, 9), generator=torch.Generator().manual_seed(0))
    logits_BTV = build(config, seed=0)(ids_BT[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, 1:].flatten())
    assert loss.item() == pytest.approx(3.923, abs=0.063)
