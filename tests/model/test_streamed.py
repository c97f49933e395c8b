import numpy as np
import pytest
import torch

from nextok.model import build, filled, streamed_logits, weight_arrays
from nextok.spec import ModelConfig


def test_streamed_weights_give_the_logits_of_the_whole_model(any_config: ModelConfig) -> None:
    model = build(any_config, 3).eval()
    ids_BT = np.random.default_rng(0).integers(0, any_config.vocab_size, (2, any_config.context))
    with torch.inference_mode():
        expected_BTV = model(torch.from_numpy(ids_BT)).numpy()
    found_BTV = streamed_logits(any_config, iter(weight_arrays(model).items()), ids_BT)
    np.testing.assert_array_equal(found_BTV, expected_BTV)


def test_a_layer_is_dropped_before_the_one_after_the_next_is_read() -> None:
    config = ModelConfig(n_layers=6, d_model=16, n_heads=2, context=8, vocab_size=11)
    alive, most = set(), 0

    def arrays():
        nonlocal most
        for name, array in weight_arrays(build(config, 0)).items():
            own = np.array(array)
            token = _Watched(alive, name)
            most = max(most, len({each.split(".")[1] for each in alive if each.startswith("blocks.")}))
            yield name, own.view(_Tracked).attach(token)

    streamed_logits(config, arrays(), np.zeros((1, 3), np.int64))
    assert 1 <= most <= 2


class _Watched:
    def __init__(self, alive: set[str], name: str) -> None:
        self._alive, self._name = alive, name
        alive.add(name)

    def __del__(self) -> None:
        self._alive.discard(self._name)


class _Tracked(np.ndarray):
    def attach(self, token: _Watched) -> "_Tracked":
        self.token = token
        return self


def test_a_missing_weight_is_not_passed_over() -> None:
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=8, vocab_size=11)
    arrays = [(name, array) for name, array in weight_arrays(build(config, 0)).items() if "norm1.bias" not in name]
    with pytest.raises(AssertionError, match=r"norm1\.bias"):
        streamed_logits(config, arrays, np.zeros((1, 3), np.int64))


def test_a_filled_model_computes_what_the_original_does(any_config: ModelConfig) -> None:
    model = build(any_config, 3).eval()
    copy = filled(any_config, weight_arrays(model).items())
    ids_BT = torch.zeros(1, any_config.context, dtype=torch.int64)
    assert not copy.training
    assert torch.equal(copy(ids_BT), model(ids_BT))
