import dataclasses

import pytest
import torch

from nextok.interop import StoredModel, open_model, write_directory
from nextok.interop.names import places, written_name
from nextok.spec import parameter_shapes


def folder(path, config, weights):
    write_directory(path, config, weights)
    return path


def checkpoint(path, config, weights):
    tensors = {}
    for name, place in places("nanogpt", config).items():
        tensors[written_name("nanogpt", place.names[0])] = torch.from_numpy(weights[name])
    torch.save({"model": tensors, "model_args": {"n_head": config.n_heads}}, path)
    return path


@pytest.mark.parametrize(
    ("family", "write"),
    [("gpt2", folder), ("llama", folder), ("qwen3", folder), ("nextok", folder), ("gpt2", checkpoint)],
)
def test_every_reader_gives_the_weights_in_native_order_and_once(family, write, tmp_path, tiny, random_weights):
    stored = open_model(write(tmp_path / "model", tiny[family], random_weights(tiny[family])))
    assert stored.config == tiny[family]
    expected = random_weights(tiny[family])
    for (name, array), (due, shape) in zip(stored.arrays, parameter_shapes(stored.config).items(), strict=True):
        assert (name, array.shape) == (due, shape)
        assert (array == expected[name]).all()
    assert list(stored.arrays) == []


def test_a_stored_model_is_changed_by_making_another(tiny):
    stored = StoredModel(config=tiny["gpt2"], arrays=iter([]))
    assert stored.tokenizer is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        stored.config = tiny["llama"]
