"""The operations together: a batch may be cut anywhere, and gradients are slopes, with dropout too."""

import pytest
import torch

from nextok.fused import fused_loss
from nextok.fused.ops import Dropout

from .models import batch_of, gradients, model_of


@pytest.mark.parametrize("kind", ["gpt2", "qwen3"])
def test_cutting_a_batch_changes_nothing_that_is_dropped(kind: str) -> None:
    model, (ids_BT, targets_BT) = model_of(kind, dropout=0.3), batch_of(B=4)
    whole = fused_loss(model, ids_BT, targets_BT, dropout=Dropout(0.3, 7, 8))
    whole.backward()
    expected = gradients(model)
    parts = [
        fused_loss(model, ids_BT[at : at + 2], targets_BT[at : at + 2], dropout=Dropout(0.3, 7, 8 + at))
        for at in (0, 2)
    ]
    for part in parts:
        part.backward()
    assert sum(part.item() for part in parts) == pytest.approx(whole.item(), rel=1e-6)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "qwen3"])
def test_gradients_with_dropout_are_those_of_finite_differences(kind: str) -> None:
    model, (ids_BT, targets_BT) = model_of(kind, dropout=0.3), batch_of(B=2, T=6)
    drops = Dropout(0.3, 7, 8)

    def loss() -> torch.Tensor:
        return fused_loss(model, ids_BT, targets_BT, scale=0.1, dropout=drops)

    loss().backward()
    found = gradients(model)
    draw = torch.Generator().manual_seed(4)
    for name, parameter in model.named_parameters():
        along = torch.randn(parameter.shape, generator=draw)
        along /= along.norm()
        with torch.no_grad():
            values = []
            for step in (2e-2, -2e-2):
                parameter.add_(along, alpha=step)
                values.append(loss().item())
                parameter.sub_(along, alpha=step)
        slope = (values[0] - values[1]) / 4e-2
        assert slope == pytest.approx((found[name] * along).sum().item(), abs=2e-3, rel=0.02), name
