"""The loss of rows of logits: torch's cross-entropy, soft-capped or not."""

import math

import pytest
import torch
import torch.nn.functional as F

from nextok.fused.ops import HeadLoss
from nextok.model import IGNORED


@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_loss_and_gradients_are_torchs(cap: float) -> None:
    draw = torch.Generator().manual_seed(1)
    x, weight = torch.randn(33, 8, generator=draw).requires_grad_(), torch.randn(11, 8, generator=draw).requires_grad_()
    targets = torch.randint(0, 11, (33,), generator=draw)
    targets[4] = IGNORED
    ours = HeadLoss.apply(x, weight, targets, cap, 0.25)
    logits = x @ weight.mT
    theirs = F.cross_entropy(cap * torch.tanh(logits / cap) if cap else logits, targets, reduction="sum") / 4
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    for got, wanted in zip(
        torch.autograd.grad(ours, (x, weight)), torch.autograd.grad(theirs, (x, weight)), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_equal_logits_cost_the_logarithm_of_their_number() -> None:
    loss = HeadLoss.apply(torch.zeros(6, 4), torch.zeros(50, 4), torch.arange(6), 0.0, 1 / 6)
    assert loss.item() == pytest.approx(math.log(50), rel=1e-6)


def test_huge_logits_stay_numbers_and_what_is_none_shows() -> None:
    x = torch.tensor([[1e4]])
    assert HeadLoss.apply(x, torch.tensor([[1.0], [-1.0]]), torch.tensor([0]), 0.0, 1.0).item() == pytest.approx(0)
    assert HeadLoss.apply(x, torch.tensor([[1.0], [-1.0]]), torch.tensor([1]), 0.0, 1.0).item() == pytest.approx(2e4)
    assert HeadLoss.apply(x * math.nan, torch.tensor([[1.0], [-1.0]]), torch.tensor([1]), 0.0, 1.0).isnan()
