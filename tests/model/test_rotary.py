"""Rotary positions: by hand, and the law they were made for."""

import math

import pytest
import torch

from nextok.model.rotary import rotation


def turn(vector: list[float], position: int, base: float = 10_000.0) -> list[float]:
    x_BHTK = torch.tensor(vector).view(1, 1, 1, -1)
    return rotation(torch.tensor([position]), len(vector), base)(x_BHTK).flatten().tolist()


def test_two_coordinates_turn_by_the_position_in_radians() -> None:
    assert turn([1.0, 0.0], 1) == pytest.approx([0.540302, 0.841471], abs=1e-6)
    assert turn([0.0, 1.0], 3) == pytest.approx([-math.sin(3), math.cos(3)], abs=1e-6)


def test_pairs_are_half_a_head_apart_and_turn_slower_one_after_the_other() -> None:
    # K = 4, base 100: the pairs (0, 2) and (1, 3) turn by 1 and 100^(-1/2) = 0.1 a position
    turned = turn([1.0, 1.0, 0.0, 0.0], 2, base=100.0)
    assert turned == pytest.approx([math.cos(2), math.cos(0.2), math.sin(2), math.sin(0.2)], abs=1e-6)


def test_position_zero_turns_nothing() -> None:
    assert turn([0.3, -1.0, 2.0, 0.5], 0) == pytest.approx([0.3, -1.0, 2.0, 0.5])


def test_lengths_stay() -> None:
    x_BHTK = torch.linspace(-2, 2, 2 * 3 * 5 * 6).view(2, 3, 5, 6)
    turned_BHTK = rotation(torch.arange(5) * 97, 6, 10_000.0)(x_BHTK)
    torch.testing.assert_close(turned_BHTK.norm(dim=-1), x_BHTK.norm(dim=-1))


@pytest.mark.parametrize("shift", [1, 7, 1000])
def test_scores_depend_on_the_distance_alone(shift: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q_BHTK, k_BHTK = torch.randn(2, 2, 3, 6, 8, generator=generator)
    positions_T = torch.arange(6)

    def scores(positions_T: torch.Tensor) -> torch.Tensor:
        rotate = rotation(positions_T, 8, 10_000.0)
        return rotate(q_BHTK) @ rotate(k_BHTK).mT

    torch.testing.assert_close(scores(positions_T), scores(positions_T + shift), atol=1e-3, rtol=0)
    uneven = scores(positions_T * 2)
    assert (uneven - scores(positions_T)).abs().max() > 0.1, "other distances give other scores"


def test_rows_at_different_places_turn_as_each_would_alone() -> None:
    x_BHTK = torch.linspace(-1, 1, 2 * 3 * 2 * 4).view(2, 3, 2, 4)
    positions_BT = torch.tensor([[0, 1], [5, 9]])
    together = rotation(positions_BT, 4, 10_000.0)(x_BHTK)
    for row in range(2):
        alone = rotation(positions_BT[row], 4, 10_000.0)(x_BHTK[row : row + 1])
        assert torch.equal(together[row], alone[0])


def test_angles_are_float32_in_a_model_of_half_precision() -> None:
    # a bfloat16 position of 1001 would be 1000, and its angle wrong by a whole radian
    turned = rotation(torch.tensor([1001]), 2, 10_000.0)(torch.tensor([[[[1.0, 0.0]]]], dtype=torch.bfloat16))
    assert turned.dtype == torch.bfloat16
    assert turned.flatten().tolist() == pytest.approx([math.cos(1001), math.sin(1001)], abs=4e-3)
