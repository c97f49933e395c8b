"""No logit depends on a later token, whatever the model is made of; and without the mask it does."""

import pytest
import torch
from torch import Tensor

from nextok.model import GPT, build
from nextok.spec import ModelConfig


def some_ids(config: ModelConfig) -> Tensor:
    return torch.randint(0, config.vocab_size, (2, config.context), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("eager", [False, True], ids=["fused", "eager"])
def test_changing_a_token_leaves_every_earlier_logit_alone(any_model: GPT, eager: bool) -> None:
    any_model.use_eager_attention(eager=eager)
    ids_BT = some_ids(any_model.config)
    before_BTV = any_model(ids_BT)
    for position in range(any_model.config.context):
        changed_BT = ids_BT.clone()
        changed_BT[:, position] = (changed_BT[:, position] + 1) % any_model.config.vocab_size
        after_BTV = any_model(changed_BT)
        assert torch.equal(after_BTV[:, :position], before_BTV[:, :position])
        assert not torch.allclose(after_BTV[:, position], before_BTV[:, position], atol=1e-4)


@pytest.mark.parametrize("eager", [False, True], ids=["fused", "eager"])
def test_no_gradient_flows_to_a_later_position(any_model: GPT, eager: bool) -> None:
    any_model.use_eager_attention(eager=eager)
    ids_BT, T = some_ids(any_model.config), any_model.config.context
    nudge_TD = torch.zeros(T, any_model.config.d_model, requires_grad=True)
    with any_model.replace({"embed": lambda x_BTD: x_BTD + nudge_TD}):
        logits_BTV = any_model(ids_BT)
    for position in (0, T // 2, T - 1):
        (gradient_TD,) = torch.autograd.grad(logits_BTV[:, position].square().sum(), nudge_TD, retain_graph=True)
        reached = gradient_TD.abs().sum(-1)
        assert (reached[: position + 1] > 0).all()
        assert (reached[position + 1 :] == 0).all()


def test_one_pass_gives_what_a_pass_over_each_prefix_gives(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    whole_BTV = any_model(ids_BT)
    for length in range(1, any_model.config.context + 1):
        prefix_BV = any_model(ids_BT[:, :length])[:, -1]
        torch.testing.assert_close(prefix_BV, whole_BTV[:, length - 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("eager", [False, True], ids=["fused", "eager"])
def test_without_the_mask_the_future_leaks(eager: bool) -> None:
    model = build(ModelConfig(n_layers=2, d_model=16, context=8, vocab_size=11, mask="none"), seed=0)
    model.use_eager_attention(eager=eager)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10)
    ids_BT = some_ids(model.config)
    changed_BT = ids_BT.clone()
    changed_BT[:, -1] += 1
    changed_BT %= 11
    difference_BT = (model(changed_BT) - model(ids_BT)).abs().amax(-1)
    assert (difference_BT > 1e-3).all()
    prefix_BV = model(ids_BT[:, :4])[:, -1]
    assert (prefix_BV - model(ids_BT)[:, 3]).abs().max() > 1e-3
