"""Rows of the stream: added, normalised as torch does, and dropped in the share asked for."""

import pytest
import torch
import torch.nn.functional as F

from nextok.fused.ops import NO_DRAW, NOTHING, AddAndNorm, Dropout


def dropped(p: float, seed: int = 1, first_sample: int = 0, rows: int = 400, width: int = 50) -> torch.Tensor:
    """What is left of ones."""
    draw = Dropout(p, seed, first_sample).at(1, 1)
    ones_ND, weight_D = torch.ones(rows, width), torch.ones(width)
    return AddAndNorm.apply(NOTHING, ones_ND, weight_D, NOTHING, False, 1e-5, torch.float32, draw)[0]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_asked_for_is_dropped_and_the_rest_scaled_to_the_same_mean(p: float) -> None:
    left_ND = dropped(p)
    assert (left_ND == 0).float().mean().item() == pytest.approx(p, abs=0.02)
    assert left_ND.mean().item() == pytest.approx(1, abs=0.05)
    assert left_ND.unique().numel() == 2
    rows = (left_ND == 0).float().mean(1)
    assert rows.std().item() == pytest.approx((p * (1 - p) / 50) ** 0.5, rel=0.25), "rows are drawn apart"
    columns = (left_ND == 0).float().mean(0)
    assert columns.std().item() == pytest.approx((p * (1 - p) / 400) ** 0.5, rel=0.4), "columns are drawn apart"


def test_no_two_places_samples_or_seeds_drop_alike() -> None:
    some = [dropped(0.5), dropped(0.5, seed=2), dropped(0.5, first_sample=400)]
    assert all(((one == other).float().mean() - 0.5).abs() < 0.05 for one in some for other in some if one is not other)
    shifted = dropped(0.5, first_sample=100)
    assert torch.equal(shifted[:300], some[0][100:]), "a sample drops the same wherever its batch begins"


def test_the_norms_are_torchs_by_hand_and_by_gradient() -> None:
    draw = torch.Generator().manual_seed(1)
    x, delta = (torch.randn(70, 9, generator=draw).requires_grad_() for _ in range(2))
    weight, bias = (torch.randn(9, generator=draw).requires_grad_() for _ in range(2))
    for centred in (True, False):
        stream, out = AddAndNorm.apply(x, delta, weight, bias, centred, 1e-5, torch.float32, NO_DRAW)
        theirs = x + delta
        expected = (
            F.layer_norm(theirs, (9,), weight, bias) if centred else F.rms_norm(theirs, (9,), weight, 1e-5) + bias
        )
        torch.testing.assert_close(stream, theirs)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        inputs = (x, delta, weight, bias)
        ours = torch.autograd.grad((out * out + stream).sum(), inputs)
        for got, wanted in zip(ours, torch.autograd.grad((expected * expected + theirs).sum(), inputs), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_one_in_four_is_1_7320_by_the_biased_variance() -> None:
    row = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    _, out = AddAndNorm.apply(NOTHING, row, torch.ones(4), NOTHING, True, 1e-5, torch.float32, NO_DRAW)
    assert out[0, 0].item() == pytest.approx(1.7320, abs=1e-4)
