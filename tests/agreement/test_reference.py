"""Torch against NumPy, which share names and nothing else: every value, every gradient, ten steps of Adam."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from nextok.decode import SamplingConfig, generate
from nextok.model import GPT, TorchDecoder, build, load_weights, next_token_loss
from nextok.reference import DIALECTS, Adam, Dialect, NumpyDecoder, backward, forward, lesson_b, logits
from nextok.reference import next_token_loss as numpy_loss
from nextok.spec import ModelConfig, hook_names, parameter_shapes, preset_config

CLOSE = 1e-10
SIZE = {"vocab_size": 13, "n_layers": 2, "d_model": 16, "n_heads": 4, "context": 8}
MODELS: dict[str, dict[str, object]] = {
    "gpt2": {},
    "lesson-a": {"mlp": "gelu", "tied_head": False, "init": "torch"},
    "relu, no biases": {"mlp": "relu", "bias": False},
    "relu2, capped": {"mlp": "relu2", "logit_softcap": 2.0, "tied_head": False},
    "wide heads, own width": {"n_heads": 3, "d_head": 6, "d_ff": 20, "norm_eps": 1e-3},
    "no mask": {"mask": "none", "mlp": "gelu"},
    "one head, four layers": {"n_heads": 1, "n_layers": 4, "dropout": 0.2},
    "gpt1": {"norm_placement": "after"},
    "shared keys and values": {"n_kv_heads": 2},
    "one key head, norm after": {"n_kv_heads": 1, "norm_placement": "after", "tied_head": False},
    "two tokens": {"context": 2, "n_layers": 1, "vocab_size": 3},
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request: pytest.FixtureRequest) -> GPT:
    """Returns one float64 model after another, its weights large enough to tell right from wrong."""
    model = build(ModelConfig(**{**SIZE, **request.param}), seed=0).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def window(model: GPT) -> NDArray[np.int64]:
    """Returns ids `[B, T + 1]`, fewer than the context holds where that can be."""
    length = max(2, model.config.context - 1)
    return np.random.default_rng(2).integers(0, model.config.vocab_size, (3, length))


def arrays_of(model: GPT) -> dict[str, NDArray[np.float64]]:
    """Returns copies of the weights in their own precision, which files would not keep."""
    return {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}


def torch_loss(model: GPT, window: NDArray[np.int64]) -> torch.Tensor:
    """Returns the loss in float64; the model's own is always in float32."""
    logits_BTV = model(torch.from_numpy(window[:, :-1]))
    return F.cross_entropy(logits_BTV.flatten(0, 1), torch.from_numpy(window[:, 1:]).flatten())


def assert_all_close(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=0, atol=CLOSE, err_msg=name)


def test_logits_and_every_hook_point_agree(model: GPT, window: NDArray[np.int64]) -> None:
    ids = window[:, :-1]
    values = forward(model.config, arrays_of(model), ids)
    with torch.no_grad():
        traced = model.trace(torch.from_numpy(ids), hook_names(model.config))
        assert_all_close(values, {name: value.numpy() for name, value in traced.items()})
        np.testing.assert_allclose(values["logits"], model(torch.from_numpy(ids)), rtol=0, atol=CLOSE)


def test_the_loss_and_every_gradient_agree(model: GPT, window: NDArray[np.int64]) -> None:
    theirs = torch_loss(model, window)
    theirs.backward()
    ours, grads = backward(model.config, arrays_of(model), window[:, :-1], window[:, 1:])
    assert ours == pytest.approx(theirs.item(), abs=CLOSE)
    assert_all_close(grads, {name: parameter.grad.numpy() for name, parameter in model.named_parameters()})


def test_ten_steps_of_adam_agree(model: GPT, window: NDArray[np.int64]) -> None:
    # A bias of keys has no gradient but rounding noise, of which Adam makes steps of up to lr * noise / eps.
    weights, ours = arrays_of(model), Adam(lr=1e-3)
    theirs = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        theirs.zero_grad()
        torch_loss(model, window).backward()
        theirs.step()
        _, grads = backward(model.config, weights, window[:, :-1], window[:, 1:])
        weights = ours.step(weights, grads)
    assert_all_close(weights, arrays_of(model))


@pytest.mark.parametrize("model", [each for each in MODELS.values() if "mask" not in each], indirect=True)
def test_a_cache_of_numpy_and_one_of_torch_give_the_same(model: GPT, window: NDArray[np.int64]) -> None:
    numpy_decoder, torch_decoder = NumpyDecoder(model.config, arrays_of(model)), TorchDecoder(model)
    for ids in (window[0, :1], window[0, 1:]):
        answers = [each.prefill(0, ids, all_positions=True) for each in (numpy_decoder, torch_decoder)]
        np.testing.assert_allclose(*answers, atol=1e-6)


# --- the lessons' models


@pytest.fixture
def tinygpt() -> GPT:
    return build(preset_config("lesson-a"), seed=42)


def test_the_lessons_greedy_ids_come_out_of_numpy(tinygpt: GPT) -> None:
    decoder = NumpyDecoder(tinygpt.config, arrays_of(tinygpt))
    [[made]] = generate(decoder, None, [[5, 12, 3]], SamplingConfig(temperature=0, max_new_tokens=5))
    assert made.ids == (42, 2, 38, 35, 35)


def test_past_the_context_the_window_slides_in_numpy_as_in_torch(tinygpt: GPT) -> None:
    options = SamplingConfig(temperature=0, max_new_tokens=12, overflow="slide")
    decoders = NumpyDecoder(tinygpt.config, arrays_of(tinygpt), n_slots=2), TorchDecoder(tinygpt, n_slots=2)
    ours, theirs = (generate(decoder, None, [[5, 12, 3], [7], [9, 9]], options) for decoder in decoders)
    assert [made.ids for [made] in ours] == [made.ids for [made] in theirs]
    assert {len(made.ids) for [made] in ours} == {12}


def test_the_lessons_twenty_training_losses_come_out_of_numpy() -> None:
    config = preset_config("lesson-a")
    with torch.random.fork_rng():
        torch.manual_seed(42)
        model = GPT(config)
        window = torch.randint(0, 50, (8, 8)).numpy()
    weights, adam, losses = arrays_of(model), Adam(lr=1e-3), []
    for _ in range(20):
        loss, grads = backward(config, weights, window[:, :-1], window[:, 1:], DIALECTS["lesson-a"])
        weights = adam.step(weights, grads)
        losses.append(loss)
    assert {weight.dtype for weight in weights.values()} == {np.dtype(np.float32)}
    np.testing.assert_allclose([losses[i - 1] for i in (1, 5, 10, 20)], [4.0511, 3.4078, 2.7282, 1.5836], atol=1e-4)


def test_torch_gives_the_loss_of_lesson_b_with_gpt2s_norm() -> None:
    config, weights = lesson_b()
    ids, targets = np.array([[5, 12, 3, 99, 44]]), np.array([[12, 3, 99, 44, 7]])
    model = build(config, seed=0).double()
    assert all((weights[name] == 0).all() for name in weights.keys() - parameter_shapes(config).keys())
    load_weights(model, {name: weights[name] for name in parameter_shapes(config)})
    theirs = next_token_loss(model(torch.from_numpy(ids)), torch.from_numpy(targets)).item()
    assert theirs == pytest.approx(4.6545796, abs=1e-6)
    inside = replace(DIALECTS["lesson-b"], eps_outside=False)
    assert inside != Dialect()
    assert numpy_loss(logits(config, weights, ids, inside), targets) == pytest.approx(theirs, abs=1e-6)
