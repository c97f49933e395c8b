"""The start of the stream and the gradients of its tables, against indexing in torch."""

import torch
import torch.nn.functional as F

from nextok.fused.ops import NOTHING, LookUp


def test_rows_and_gradients_are_those_of_indexing() -> None:
    draw = torch.Generator().manual_seed(1)
    tokens, positions = (torch.randn(n, 6, generator=draw).requires_grad_() for n in (7, 5))
    ids = torch.tensor([[3, 3, 0, 6, 1], [1, 1, 1, 1, 5]])
    pairs = torch.randn(11, 6, generator=draw).requires_grad_()
    ours = LookUp.apply(ids, tokens, positions, pairs)
    rows = (ids[:, :-1] * 7 + ids[:, 1:]) % 11
    theirs = (tokens[ids] + positions + F.pad(pairs[rows], (0, 0, 1, 0))).view(10, 6)
    torch.testing.assert_close(ours, theirs)
    for got, wanted in zip(
        torch.autograd.grad((ours**3).sum(), (tokens, positions, pairs)),
        torch.autograd.grad((theirs**3).sum(), (tokens, positions, pairs)),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_without_positions_the_tokens_alone() -> None:
    tokens = torch.randn(7, 3, generator=torch.Generator().manual_seed(2))
    assert torch.equal(LookUp.apply(torch.tensor([[2, 0]]), tokens, NOTHING, NOTHING), tokens[[2, 0]])
