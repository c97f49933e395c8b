"""Muon against torch's, and what makes it itself: changes that are nearly orthogonal, whatever the gradient's scale."""

import pytest
import torch

from nextok.train.muon import Muon, orthogonalise

SHAPES = [(8, 8), (24, 8), (8, 24), (5, 7), (1, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_torch(shape: tuple[int, int], weight_decay: float) -> None:
    draw = torch.Generator().manual_seed(1)
    ours = torch.randn(shape, generator=draw).requires_grad_()
    theirs = torch.nn.Parameter(ours.detach().clone())
    muon = Muon({ours: [shape[0]]}, momentum=0.9, weight_decay=weight_decay, dtype=torch.bfloat16)
    oracle = torch.optim.Muon([theirs], lr=0.1, momentum=0.9, weight_decay=weight_decay)
    for _ in range(4):
        ours.grad = torch.randn(shape, generator=draw)
        theirs.grad = ours.grad.clone()
        muon.step(0.1)
        oracle.step()
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0, atol=0.02)


def test_a_change_is_nearly_orthogonal() -> None:
    x_MRC = torch.randn(3, 16, 40, generator=torch.Generator().manual_seed(2))
    for matrix in orthogonalise(x_MRC * torch.tensor([1e-3, 1.0, 1e3])[:, None, None]):
        values = torch.linalg.svdvals(matrix)
        assert values.min() > 0.5 and values.max() < 1.3


def test_stacked_queries_keys_and_values_are_matrices_of_their_own() -> None:
    draw = torch.Generator().manual_seed(3)
    whole = torch.randn(24, 8, generator=draw).requires_grad_()
    parts = [part.detach().clone().requires_grad_() for part in whole.split([8, 8, 8])]
    whole.grad = torch.randn(24, 8, generator=draw)
    for part, gradient in zip(parts, whole.grad.split([8, 8, 8]), strict=True):
        part.grad = gradient.clone()
    Muon({whole: [8, 8, 8]}, momentum=0.9, weight_decay=0.0).step(0.1)
    Muon({part: [8] for part in parts}, momentum=0.9, weight_decay=0.0).step(0.1)
    torch.testing.assert_close(whole.detach(), torch.cat([part.detach() for part in parts]))


def test_matrices_without_a_gradient_stay_and_none_is_no_error() -> None:
    still, moving = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)
    muon = Muon({still: [4], moving: [4]}, momentum=0.9, weight_decay=0.1)
    muon.step(0.1)
    moving.grad = torch.eye(4)
    muon.step(0.1)
    assert torch.equal(still, torch.ones(4, 4)) and not torch.equal(moving, torch.ones(4, 4))


def test_a_gradient_of_zeros_changes_nothing() -> None:
    matrix = torch.ones(4, 6, requires_grad=True)
    matrix.grad = torch.zeros(4, 6)
    Muon({matrix: [4]}, momentum=0.9, weight_decay=0.0).step(0.1)
    assert torch.equal(matrix, torch.ones(4, 6))
