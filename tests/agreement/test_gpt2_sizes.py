"""The four sizes of GPT-2 against transformers, in the same weights: real depth and heads, and small once in full.

Nothing is written to disk: transformers' model is made without memory and takes ours, linear maps turned on their side.
"""

import math
import warnings

import numpy as np
import pytest
import torch

from nextok.decode import SamplingConfig, generate
from nextok.interop.names import places, written_name
from nextok.model import GPT, TorchDecoder, empty
from nextok.spec import ModelConfig, preset_config

CLOSE = 1e-5
SIZES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
HEAD_WIDTH = 4
SPREADS = {"embed.tokens.weight": 2.0, "embed.positions.weight": 7.0}
"""Over the root of the width, with 0.7 for all other weights: sums over it are then of one size in all models."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Keeps threads from waiting for each other over matrices of 64 columns."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():  # of the library's own imports
        warnings.simplefilter("ignore")
        import transformers
        from transformers import GPT2LMHeadModel

        assert GPT2LMHeadModel
    return transformers


def with_weights(config: ModelConfig) -> GPT:
    """Returns a model whose weights all matter: gains around 1, all else around 0, and tables large beside the maps."""
    model = empty(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            spread = SPREADS.get(name, 0.7) / math.sqrt(config.d_model)
            parameter.uniform_(centre - spread, centre + spread, generator=generator)
    return model


def as_transformers(hf, model: GPT):
    """Returns transformers' model over the very memory of ours."""
    config = model.config
    with torch.device("meta"):
        theirs = hf.GPT2LMHeadModel(
            hf.GPT2Config(
                n_layer=config.n_layers,
                n_head=config.n_heads,
                n_embd=config.d_model,
                n_positions=config.context,
                vocab_size=config.vocab_size,
            )
        )
    own = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    parts = [part for name, place in places("gpt2", config).items() for part in place.split(own[name])]
    state = {written_name("gpt2", name): torch.from_numpy(array) for name, array in parts}
    theirs.load_state_dict({**state, "lm_head.weight": state["transformer.wte.weight"]}, assign=True)
    theirs.tie_weights()
    return theirs.eval()


def assert_same_logits(ours: GPT, theirs, ids_BT: torch.Tensor) -> None:
    with torch.no_grad():
        expected = theirs(ids_BT).logits
        assert expected.std() > 0.1, "logits that are all alike would agree whatever went wrong"
        assert torch.allclose(ours(ids_BT), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_computes_the_same_and_says_the_same(transformers, size: str) -> None:
    full = preset_config(size)
    config = ModelConfig(
        n_layers=full.n_layers,
        n_heads=full.n_heads,
        d_model=full.n_heads * HEAD_WIDTH,
        vocab_size=61,
        context=20,
    )
    ours = with_weights(config)
    theirs = as_transformers(transformers, ours)
    ids_BT = torch.randint(0, 61, (2, 12), generator=torch.Generator().manual_seed(0))
    assert_same_logits(ours, theirs, ids_BT)
    everything = torch.ones_like(ids_BT)  # without it, ids that equal the padding would be masked
    said = theirs.generate(ids_BT, attention_mask=everything, do_sample=False, max_new_tokens=8, pad_token_id=0)[:, 12:]
    options = SamplingConfig(temperature=0, max_new_tokens=8)
    made = generate(TorchDecoder(ours, n_slots=2), None, ids_BT.tolist(), options)
    np.testing.assert_array_equal([each.ids for [each] in made], said)
    assert len(said.unique()) > 2, "a model that repeats one token would hide a wrong position"


def test_gpt2_small_in_full_computes_the_same(transformers) -> None:
    ours = with_weights(preset_config("gpt2"))
    theirs = as_transformers(transformers, ours)
    assert sum(parameter.numel() for parameter in theirs.parameters()) == 124_439_808
    ids_BT = torch.tensor([[0, 50_256, 13, 198, 31_373, 995]])
    assert_same_logits(ours, theirs, ids_BT)
