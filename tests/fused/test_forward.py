"""The fused loss is the model's loss: value and every gradient, for every kind of model."""

import pytest
import torch

from nextok.errors import InputError
from nextok.fused import fits, forward, fused_loss
from nextok.fused.ops import Dropout
from nextok.model import GPT, IGNORED, next_token_loss
from nextok.spec import ModelConfig, preset_config

from .models import KINDS, batch_of, gradients, model_of


def plain(model: GPT, ids_BT: torch.Tensor, targets_BT: torch.Tensor, scale: float) -> float:
    loss = next_token_loss(model(ids_BT), targets_BT, reduction="sum") * scale
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", [1, 5, 12])
def test_loss_and_gradients_are_the_models(kind: str, T: int) -> None:
    model, (ids_BT, targets_BT) = model_of(kind), batch_of(T=T) if T > 1 else batch_of(T=2)
    ids_BT, targets_BT = ids_BT[:, :T], targets_BT[:, :T]
    expected = plain(model, ids_BT, targets_BT, 0.1), gradients(model)
    loss = fused_loss(model, ids_BT, targets_BT, scale=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(expected[0], rel=1e-6)
    ours = gradients(model)
    assert ours.keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-4, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_products_stay_within_their_rounding(kind: str) -> None:
    model, (ids_BT, targets_BT) = model_of(kind), batch_of()
    expected = plain(model, ids_BT, targets_BT, 0.03), gradients(model)
    loss = fused_loss(model, ids_BT, targets_BT, dtype=torch.bfloat16, scale=0.03)
    loss.backward()
    assert loss.item() == pytest.approx(expected[0], rel=0.01)
    for name, gradient in gradients(model).items():
        error = (gradient - expected[1][name]).norm() / (expected[1][name].norm() + 1e-3)
        assert error < (0.2 if model.config.mlp == "relu" else 0.1), name  # a kink turns rounding into a step
        assert gradient.dtype is torch.float32


def test_long_contexts_take_the_attention_that_keeps_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (ids_BT, targets_BT) = model_of("qwen3"), batch_of()
    loss = fused_loss(model, ids_BT, targets_BT)
    loss.backward()
    whole = gradients(model)
    monkeypatch.setattr(forward, "_LONGEST_PATTERN", 4)
    monkeypatch.setattr(forward.Attend, "apply", lambda *_: pytest.fail("the pattern was made"))
    other = fused_loss(model, ids_BT, targets_BT)
    other.backward()
    torch.testing.assert_close(other, loss, rtol=1e-6, atol=0)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("chunk_bytes", [1, 19 * 4 * 5])
def test_logits_in_chunks_change_nothing(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (ids_BT, targets_BT) = model_of("speedrun"), batch_of()
    loss = fused_loss(model, ids_BT, targets_BT)
    loss.backward()
    whole = gradients(model)
    monkeypatch.setattr("nextok.fused.ops._LOGITS_BYTES", chunk_bytes)
    other = fused_loss(model, ids_BT, targets_BT)
    other.backward()
    torch.testing.assert_close(other, loss, rtol=1e-6, atol=0)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=2e-6)


def test_a_factor_after_the_loss_reaches_the_gradients() -> None:
    model, (ids_BT, targets_BT) = model_of("gpt2"), batch_of()
    fused_loss(model, ids_BT, targets_BT, scale=0.5).backward()
    once = gradients(model)
    (fused_loss(model, ids_BT, targets_BT, scale=0.25) * 2).backward()
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, once[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_bits_every_time(dtype: torch.dtype) -> None:
    model, (ids_BT, targets_BT) = model_of("qwen3"), batch_of()
    found = []
    for _ in range(2):
        fused_loss(model, ids_BT, targets_BT, dtype=dtype, dropout=Dropout(0.2, 3, 5)).backward()
        found.append(gradients(model))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_ids_and_targets_that_are_not_in_the_vocabulary_are_refused() -> None:
    model, (ids_BT, targets_BT) = model_of("gpt2"), batch_of()
    with pytest.raises(InputError, match="Token id 19 is not in 0 to 18"):
        fused_loss(model, ids_BT.fill_(19), targets_BT)
    ids_BT, targets_BT = batch_of()
    with pytest.raises(InputError, match="Token id 40 is not in 0 to 18"):
        fused_loss(model, ids_BT, targets_BT.fill_(40))
    with pytest.raises(InputError, match="13 tokens; it takes 1 to 12"):
        fused_loss(model, *batch_of(T=13))


def test_a_batch_in_which_nothing_counts_has_no_loss_and_no_gradient() -> None:
    model, (ids_BT, targets_BT) = model_of("gpt2"), batch_of()
    loss = fused_loss(model, ids_BT, targets_BT.fill_(IGNORED))
    loss.backward()
    assert loss.item() == 0
    assert all(not gradient.any() for gradient in gradients(model).values())


def test_what_has_no_fused_form_is_told() -> None:
    assert fits(preset_config("nano")) and fits(preset_config("gpt2", "modern"))
    assert not fits(ModelConfig(vocab_size=5, norm_placement="after"))
    assert not fits(ModelConfig(vocab_size=5, mask="none"))
