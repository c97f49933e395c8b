"""Each activation and its gradient against torch's."""

import pytest
import torch
import torch.nn.functional as F

from nextok.fused.activation import KINDS
from nextok.fused.ops import Activate

THEIRS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": lambda x: F.silu(x[:, :5]) * x[:, 5:],
}


def test_every_kind_is_tested() -> None:
    assert KINDS.keys() == THEIRS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_torchs(kind: str) -> None:
    pre = (torch.randn(40, 10, generator=torch.Generator().manual_seed(1)) * 3).requires_grad_()
    ours, theirs = Activate.apply(pre, kind), THEIRS[kind](pre)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    (got,), (wanted,) = (torch.autograd.grad((x * x).sum(), pre) for x in (ours, theirs))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
