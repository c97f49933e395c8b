"""From rows to heads: where each lies, and what turning does to it."""

import torch
import torch.nn.functional as F

from nextok.fused.forward import _angles
from nextok.fused.ops import NOTHING, SplitHeads
from nextok.model.rotary import rotation
from nextok.spec import ModelConfig


def test_heads_lie_where_attention_reads_them() -> None:
    rows_NM = torch.arange(2 * 3 * 8, dtype=torch.float32).view(6, 8)  # B 2, T 3; H 2, G 1, K 2
    cos, sin = torch.ones(3, 2), torch.zeros(3, 2)
    q, k, v = SplitHeads.apply(rows_NM, NOTHING, NOTHING, cos, sin, 1e-5, 2, 1)
    assert q[1, 1, 2].tolist() == rows_NM[5, 2:4].tolist()
    assert k[0, 0, 1].tolist() == rows_NM[1, 4:6].tolist()
    assert v[1, 0, 0].tolist() == rows_NM[3, 6:8].tolist()


def test_heads_are_normalised_then_turned_as_the_model_does() -> None:
    config = ModelConfig(vocab_size=5, d_model=12, n_heads=2, position="rope")
    draw = torch.Generator().manual_seed(1)
    rows_NM = torch.randn(10, 36, generator=draw).requires_grad_()
    q_weight, k_weight = (torch.randn(6, generator=draw).requires_grad_() for _ in range(2))
    ours = SplitHeads.apply(rows_NM, q_weight, k_weight, *_angles(config, 5), 1e-6, 2, 2)
    q, k, v = rows_NM.view(2, 5, 6, 6).transpose(1, 2).split(2, dim=1)
    turn = rotation(torch.arange(5), 6, config.rope_base)
    theirs = (turn(F.rms_norm(q, (6,), q_weight, 1e-6)), turn(F.rms_norm(k, (6,), k_weight, 1e-6)), v)
    inputs = (rows_NM, q_weight, k_weight)
    for got, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    total = [sum((x * x * x).sum() for x in three) for three in (ours, theirs)]
    for got, wanted in zip(torch.autograd.grad(total[0], inputs), torch.autograd.grad(total[1], inputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_without_rotation_or_norm_heads_are_the_rows_themselves() -> None:
    config = ModelConfig(vocab_size=5, d_model=12, n_heads=2)
    rows_NM = torch.randn(5, 36, generator=torch.Generator().manual_seed(2))
    q, _, _ = SplitHeads.apply(rows_NM, NOTHING, NOTHING, *_angles(config, 5), 1e-6, 2, 2)
    assert torch.equal(q[0, 1], rows_NM[:, 6:12])
