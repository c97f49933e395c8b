"""The attention pattern: causal, and the gradient that torch finds."""

import torch
import torch.nn.functional as F

from nextok.fused.ops import NO_DRAW, Attend, Dropout


def test_attention_looks_at_itself_and_the_past_alone() -> None:
    draw = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, 2, 6, 4, generator=draw) for _ in range(3))
    before = Attend.apply(q, k, v, Dropout(0.0, 0, 0).at(1, 12))
    k[:, :, 4:], v[:, :, 4:] = 9.0, 9.0
    after = Attend.apply(q, k, v, Dropout(0.0, 0, 0).at(1, 12))
    assert torch.equal(before[:4], after[:4]) and not torch.equal(before[4:], after[4:])


def test_attention_and_its_gradients_are_torchs_with_shared_heads_too() -> None:
    draw = torch.Generator().manual_seed(6)
    for G in (1, 2, 4):
        q = torch.randn(2, 4, 7, 6, generator=draw).requires_grad_()
        k, v = (torch.randn(2, G, 7, 6, generator=draw).requires_grad_() for _ in range(2))
        ours = Attend.apply(q, k, v, NO_DRAW)
        theirs = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(14, 24)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        for got, wanted in zip(
            torch.autograd.grad(ours.square().sum(), (q, k, v)),
            torch.autograd.grad(theirs.square().sum(), (q, k, v)),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    q = torch.full((1, 1, 3, 4), 100.0)
    k = torch.tensor([[[[1.0] * 4, [-1.0] * 4, [1.0] * 4]]]) * 100
    v = torch.eye(3)[None, None]
    v = torch.cat([v, torch.zeros(1, 1, 3, 1)], -1)
    mixed = Attend.apply(q, k, v, NO_DRAW)
    torch.testing.assert_close(mixed[:, :3], torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0.5, 0, 0.5]]))
