import tracemalloc

import pytest
import torch

import nextok
from nextok.interop import open_model, write_directory
from nextok.model import build, filled, weight_arrays
from nextok.spec import ModelConfig


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "nextok"])
def test_a_model_comes_back_with_the_same_bits_and_logits(family, tiny, tmp_path):
    model = build(tiny[family], seed=3).eval()
    write_directory(tmp_path, model.config, weight_arrays(model))
    loaded = nextok.load(tmp_path).model
    assert loaded.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))
    ids_BT = torch.arange(10)[None]
    assert torch.equal(loaded(ids_BT), model(ids_BT))


def test_a_loaded_model_does_not_drop(tmp_path):
    model = build(ModelConfig(vocab_size=9, dropout=0.5), seed=0)
    write_directory(tmp_path, model.config, weight_arrays(model))
    assert not nextok.load(tmp_path).model.training


def test_loading_holds_one_matrix_beside_the_model(tmp_path, random_weights):
    config = ModelConfig(
        n_layers=6, d_model=192, vocab_size=64, mlp="swiglu", norm="rmsnorm", position="rope", bias=False
    )
    weights = random_weights(config)
    write_directory(tmp_path, config, weights)
    largest, whole = max(a.nbytes for a in weights.values()), sum(a.nbytes for a in weights.values())
    tracemalloc.start()  # sees NumPy's memory, not torch's
    stored = open_model(tmp_path)
    filled(stored.config, stored.arrays)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < largest + 0.1 * whole
