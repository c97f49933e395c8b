"""One step: the gradient does not depend on how a batch is cut, and numbers that are none change nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from nextok.corpus import Batch
from nextok.model import GPT, IGNORED, build
from nextok.spec import preset_config
from nextok.train.config import TrainConfig
from nextok.train.objective import choose_objective
from nextok.train.optim import Optimizer
from nextok.train.step import StepResult, non_finite_error, train_step

CONFIG = replace(preset_config("lesson-a"), dropout=0.0)
SETTINGS = TrainConfig(grad_clip=0.0, seed=3, precision="fp32")


def batch_of(*lengths: int, seed: int = 0) -> list[Batch]:
    """One piece a length: a row of so many targets."""
    draw = np.random.default_rng(seed)
    windows = [draw.integers(0, 50, (1, length + 1)) for length in lengths]
    return [Batch(inputs_BT=w[:, :-1], targets_BT=w[:, 1:], starts_B=np.array([7])) for w in windows]


def joined(pieces: list[Batch]) -> list[Batch]:
    """Rows of one length as a single piece."""
    return [
        Batch(
            inputs_BT=np.concatenate([p.inputs_BT for p in pieces]),
            targets_BT=np.concatenate([p.targets_BT for p in pieces]),
            starts_B=np.concatenate([p.starts_B for p in pieces]),
        )
    ]


def gradients(model: GPT, batch: list[Batch], settings: TrainConfig = SETTINGS) -> list[torch.Tensor]:
    """The gradients that reach the optimizer."""
    seen: list[torch.Tensor] = []
    optimizer = Optimizer(model, settings)
    optimizer.step = lambda lr: seen.extend(p.grad.clone() for p in model.parameters())  # type: ignore[method-assign, union-attr, misc]
    step(model, batch, settings, optimizer)
    return seen


def step(
    model: GPT, batch: list[Batch], settings: TrainConfig = SETTINGS, optimizer: Optimizer | None = None, *,
    lr: float = 0.0, first_sample: int = 0
) -> StepResult:  # fmt: skip
    return train_step(
        model.train(),
        choose_objective(model, settings, batch[0], []),
        optimizer or Optimizer(model, settings),
        batch,
        lr=lr,
        first_sample=first_sample,
        config=settings,
    )


def test_any_split_into_micro_batches_gives_the_same_gradient() -> None:
    pieces = batch_of(8, 8, 8, 8)
    whole = gradients(build(CONFIG, 1), joined(pieces))
    cut = gradients(build(CONFIG, 1), pieces)
    for one, other in zip(whole, cut, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_micro_batches_weigh_by_their_targets_not_by_their_number() -> None:
    short, long = batch_of(1)[0], batch_of(8, seed=1)[0]
    model = build(CONFIG, 1)
    one, other, both = (gradients(model, pieces) for pieces in ([short], [long], [short, long]))
    for alone_1, alone_8, together in zip(one, other, both, strict=True):
        torch.testing.assert_close(together, (alone_1 * 1 + alone_8 * 8) / 9, atol=1e-6, rtol=1e-5)


def test_targets_that_do_not_count_weigh_nothing() -> None:
    piece = batch_of(8)[0]
    masked_BT = piece.targets_BT.copy()
    masked_BT[0, 1:] = IGNORED
    one_of_eight = replace(piece, targets_BT=masked_BT)
    model = build(CONFIG, 1)
    one, other, both = (gradients(model, pieces) for pieces in ([one_of_eight], [piece], [one_of_eight, piece]))
    for alone_1, alone_8, together in zip(one, other, both, strict=True):
        torch.testing.assert_close(together, (alone_1 * 1 + alone_8 * 8) / 9, atol=1e-6, rtol=1e-5)


def test_clipping_bounds_the_norm_and_reports_it_unclipped() -> None:
    settings = replace(SETTINGS, grad_clip=0.01)
    model = build(CONFIG, 1)
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients(model, batch_of(8), settings)))
    assert norm == pytest.approx(0.01, rel=1e-3)
    assert step(model, batch_of(8), settings).grad_norm > 0.1


def test_dropout_is_a_function_of_seed_and_position() -> None:
    model = build(replace(CONFIG, dropout=0.5), 1)
    same = [gradients(model, batch_of(8)) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*same, strict=True))
    other_seed = gradients(model, batch_of(8), replace(SETTINGS, seed=4))
    assert not all(torch.equal(a, b) for a, b in zip(same[0], other_seed, strict=True))
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    gradients(model, batch_of(8))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_number_that_is_none_changes_no_weight_and_is_named(bad: float) -> None:
    model = build(CONFIG, 1)
    weights = [p.detach().clone() for p in model.parameters()]
    with model.replace({"embed": lambda x: x * bad}):
        result = step(model, batch_of(8), lr=1.0, first_sample=40)
    assert not result.finite
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    error = non_finite_error(result, step=11, first_sample=40, batch=batch_of(8))
    assert "loss became nan in step 11 (samples 40 to 40, windows at tokens 7)" in error.message
    assert "--non-finite skip" in error.hint


def test_infinite_gradient_of_a_finite_loss_is_found() -> None:
    model = build(CONFIG, 1)
    model.head.weight.register_hook(lambda grad: grad * math.inf)  # type: ignore[union-attr]
    result = step(model, batch_of(8), lr=1.0)
    assert math.isfinite(result.loss)
    assert not result.finite
    assert "The gradient became" in non_finite_error(result, 1, 0, batch_of(8)).message


def test_bfloat16_products_leave_weights_and_optimizer_in_float32() -> None:
    model = build(CONFIG, 1)
    settings = replace(SETTINGS, precision="bf16")
    optimizer = Optimizer(model, settings)
    result = step(model, batch_of(8), settings, optimizer, lr=1e-3)
    exact = step(build(CONFIG, 1), batch_of(8))
    assert result.loss == pytest.approx(exact.loss, abs=0.02)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {mean.dtype for mean in optimizer.arrays().values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_gradient_of_masked_windows_does_not_depend_on_how_they_are_cut(size: int) -> None:
    draw = np.random.default_rng(4)
    windows_BT = draw.integers(0, 50, (5, 9))
    targets_BT = np.where(draw.random((5, 8)) < 0.7, IGNORED, windows_BT[:, 1:])
    targets_BT[2] = IGNORED  # a window that lies in a prompt whole
    whole = Batch(inputs_BT=windows_BT[:, :-1], targets_BT=targets_BT, starts_B=np.arange(5))
    cut = [
        Batch(
            inputs_BT=whole.inputs_BT[at : at + size], targets_BT=targets_BT[at : at + size], starts_B=np.arange(size)
        )
        for at in range(0, 5, size)
    ]
    for one, other in zip(gradients(build(CONFIG, 1), [whole]), gradients(build(CONFIG, 1), cut), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_batch_without_a_target_has_no_gradient_and_is_finite() -> None:
    piece = batch_of(8)[0]
    nothing = replace(piece, targets_BT=np.full_like(piece.targets_BT, IGNORED))
    model = build(CONFIG, 1)
    assert all(not gradient.any() for gradient in gradients(model, [nothing]))
    result = step(model, [nothing], lr=0.1)
    assert (result.loss, result.grad_norm, result.finite) == (0.0, 0.0, True)
