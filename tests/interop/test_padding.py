import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError, TokenizerError
from nextok.interop import read_directory
from nextok.interop.hf_out import write_stored
from nextok.interop.padding import cut_padding
from nextok.interop.stored import StoredModel
from nextok.model import build, load_weights, weight_arrays
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import char_tokenizer

PADDED = {"n_layers": 1, "d_model": 8, "n_heads": 2, "context": 6, "vocab_size": 16}


def stored(model, tokenizer=None):
    return StoredModel(config=model.config, arrays=iter(weight_arrays(model).items()), tokenizer=tokenizer)


@pytest.mark.parametrize("tied", [True, False])
def test_the_logits_of_real_ids_stay_what_they_were(tied):
    model = build(ModelConfig(**PADDED, tied_head=tied), seed=0).eval()
    cut = cut_padding(stored(model), 11)
    smaller = build(cut.config, seed=1).eval()
    load_weights(smaller, dict(cut.arrays))
    ids_BT = torch.randint(0, 11, (3, 6), generator=torch.Generator().manual_seed(0))
    assert cut.config.vocab_size == 11
    torch.testing.assert_close(smaller(ids_BT), model(ids_BT)[..., :11], rtol=0, atol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_a_directory_written_after_cutting_agrees_with_itself(tmp_path, tied):
    model = build(ModelConfig(**PADDED, tied_head=tied), seed=0)
    letters = char_tokenizer("abcdefghij", end_of_text=True)
    write_stored(tmp_path, cut_padding(stored(model, letters), letters.vocab_size))
    config, weights = read_directory(tmp_path)
    assert config.vocab_size == 11
    assert {name: array.shape for name, array in weights.items()} == parameter_shapes(config)
    assert np.array_equal(weights["embed.tokens.weight"], weight_arrays(model)["embed.tokens.weight"][:11])


def test_nothing_to_cut_changes_nothing():
    model = build(ModelConfig(**PADDED), seed=0)
    cut = cut_padding(stored(model), 16)
    assert cut.config == model.config
    assert all(np.array_equal(array, weight_arrays(model)[name]) for name, array in cut.arrays)


@pytest.mark.parametrize("vocab_size", [17, 0, -3])
def test_a_vocabulary_that_is_not_there_cannot_be_cut(vocab_size):
    with pytest.raises(CheckpointError, match=f"vocabulary of {vocab_size} ids cannot be cut from 16"):
        cut_padding(stored(build(ModelConfig(**PADDED), seed=0)), vocab_size)


def test_ids_of_the_tokenizer_are_not_cut_away():
    with pytest.raises(TokenizerError, match="has 3 embedding rows"):
        cut_padding(stored(build(ModelConfig(**PADDED), seed=0), char_tokenizer("abcd", end_of_text=False)), 3)
