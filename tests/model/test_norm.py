"""The norms, by hand."""

import pytest
import torch

from nextok.model.norm import make_norm
from nextok.spec import ModelConfig


def norm(**options: object) -> torch.nn.Module:
    return make_norm(ModelConfig(vocab_size=5, **options), 4)


@pytest.mark.parametrize(
    ("row", "first"),
    [([1.0, 0.0, 0.0, 0.0], 1.7320), ([1e-3, 0.0, 0.0, 0.0], 0.2350)],
    ids=["biased variance (unbiased: 1.5)", "eps inside the root (outside: 1.6930)"],
)
def test_layernorm_by_hand(row: list[float], first: float) -> None:
    normed = norm(norm="layernorm")(torch.tensor(row))
    assert normed[0].item() == pytest.approx(first, abs=5e-5)
    assert normed[1:].tolist() == pytest.approx([-first / 3] * 3, abs=5e-5)


def test_rmsnorm_by_hand() -> None:
    # mean square 2.5 and 2.5e-7, the mean is not taken away
    normed = norm(norm="rmsnorm", norm_eps=1e-6)(torch.tensor([[3.0, -1.0, 0.0, 0.0], [1e-3, 0.0, 0.0, 0.0]]))
    assert normed[0].tolist() == pytest.approx([3 / 2.5**0.5, -1 / 2.5**0.5, 0, 0], abs=1e-5)
    assert normed[1, 0].item() == pytest.approx(1e-3 / (2.5e-7 + 1e-6) ** 0.5, rel=1e-5)


def test_eps_is_the_one_of_the_config() -> None:
    for kind in ("layernorm", "rmsnorm"):
        assert norm(norm=kind, norm_eps=0.125).eps == 0.125
        assert norm(norm=kind, norm_eps=0.125)(torch.zeros(4)).tolist() == [0, 0, 0, 0]


def test_only_a_layernorm_with_biases_has_a_bias() -> None:
    names = {(kind, bias): {name for name, _ in norm(norm=kind, bias=bias).named_parameters()} for kind, bias in CASES}
    assert names.pop(("layernorm", True)) == {"weight", "bias"}
    assert all(each == {"weight"} for each in names.values())


CASES = [(kind, bias) for kind in ("layernorm", "rmsnorm") for bias in (True, False)]


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_a_norm_undoes_scale_and_layernorm_also_shift(kind: str) -> None:
    x = torch.tensor([0.3, -1.2, 2.0, 0.7])
    layer = norm(norm=kind, norm_eps=1e-12)
    torch.testing.assert_close(layer(100 * x), layer(x))
    assert torch.allclose(layer(x + 5), layer(x), atol=1e-5) == (kind == "layernorm")


def test_rms_norm_of_half_precision_stays_in_it_and_near_the_exact_one() -> None:
    norm = make_norm(ModelConfig(vocab_size=2, norm="rmsnorm"), 64)
    x_BD = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    exact, half = norm(x_BD), norm(x_BD.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(exact, torch.nn.functional.rms_norm(x_BD, (64,), norm.weight, 1e-5), atol=0, rtol=0)
