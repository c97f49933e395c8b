"""A model that others trained: minGPT's gpt-nano, which sorts six digits of 0 to 2, and what it computed on the way."""

import base64
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nextok.decode import SamplingConfig, generate
from nextok.files import read_json
from nextok.interop import write_directory
from nextok.interop.torch_checkpoint import read_torch_checkpoint
from nextok.model import GPT, TorchDecoder, build, load_weights
from nextok.reference import NumpyDecoder, forward, logits
from nextok.spec import ModelConfig, count, hook_names

CLOSE = 1e-5
CONFIG = ModelConfig(
    vocab_size=3, n_layers=3, n_heads=3, d_model=48, context=11, mlp="gelu_tanh", tied_head=False, dropout=0.1
)
MODULES = {
    "transformer.h.": "blocks.",
    "transformer.wte": "embed.tokens",
    "transformer.wpe": "embed.positions",
    "transformer.ln_f": "final_norm",
    "lm_head": "head",
    "ln_1": "norm1",
    "attn.c_attn": "attn.qkv",
    "attn.c_proj": "attn.out",
    "ln_2": "norm2",
    "mlp.c_fc": "mlp.up",
    "mlp.c_proj": "mlp.down",
}
# Recorded name to hook point; heads lie side by side in some of the recorded ones.
RECORDED = {
    "tok_emb": "embed.tokens",
    "pos_emb": "embed.positions",
    "x": "embed",
    "ln1": "blocks.0.norm1",
    "q": "blocks.0.attn.q",
    "k": "blocks.0.attn.k",
    "v": "blocks.0.attn.v",
    "att": "blocks.0.attn.masked",
    "attSm": "blocks.0.attn.pattern",
    "y": "blocks.0.attn.mixed",
    "yProj": "blocks.0.attn.out",
    "attnResid": "blocks.0.resid_mid",
    "ln2": "blocks.0.norm2",
    "fc": "blocks.0.mlp.pre",
    "gelu": "blocks.0.mlp.post",
    "mlp": "blocks.0.mlp.out",
    "mlpResid": "blocks.0.resid_post",
    "block0": "blocks.0.resid_post",
    "block1": "blocks.1.resid_post",
    "block2": "blocks.2.resid_post",
    "ln_f": "final_norm",
    "lm_head": "logits",
}
ALL_INPUTS = np.array(list(itertools.product(range(3), repeat=6)))

Weights = dict[str, NDArray[np.float32]]
Run = Callable[[NDArray[np.int64]], dict[str, NDArray[np.float32]]]


def tensors_of(path) -> Weights:
    """Returns the tensors of one of the files: little-endian float32 in base64."""
    entries = {name: entry for name, entry in read_json(path).items() if "data" in entry}
    return {
        name: np.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"])
        for name, entry in entries.items()
    }


@pytest.fixture(scope="module")
def weights(shared_data) -> Weights:
    """Returns the trained weights by native name; the stored masks end in `.attn.bias` and are none."""
    native = {}
    for name, array in tensors_of(shared_data("gpt-nano-sort-model.json")).items():
        if not name.endswith(".attn.bias"):
            for foreign, own in MODULES.items():
                name = name.replace(foreign, own)
            native[name] = array
    return native


@pytest.fixture(scope="module")
def recorded(shared_data) -> Weights:
    return tensors_of(shared_data("gpt-nano-sort-t0-partials.json"))


@pytest.fixture(scope="module")
def model(weights: Weights) -> GPT:
    model = build(CONFIG, seed=0).eval()
    load_weights(model, weights)
    return model


@pytest.fixture(params=["torch", "numpy"])
def run(request: pytest.FixtureRequest, model: GPT, weights: Weights) -> Run:
    """Returns what gives every value of a pass by its hook point, in torch and then in NumPy."""

    def torch_run(ids_BT: NDArray[np.int64]) -> Weights:
        with torch.inference_mode():
            traced = model.trace(torch.from_numpy(ids_BT), hook_names(CONFIG))
        return {name: value.numpy() for name, value in traced.items()}

    return torch_run if request.param == "torch" else lambda ids_BT: forward(CONFIG, weights, ids_BT)


def heads_side_by_side(x_BHTK: NDArray[np.float32]) -> NDArray[np.float32]:
    return x_BHTK.swapaxes(1, 2).reshape(*x_BHTK.shape[::2], -1)


def test_it_has_85_728_parameters_and_a_head_of_its_own(weights: Weights) -> None:
    assert sum(array.size for array in weights.values()) == count(CONFIG).parameters == 85_728
    assert not np.allclose(weights["head.weight"], weights["embed.tokens.weight"])


def test_every_recorded_value_is_computed_again(run: Run, recorded: Weights) -> None:
    values = run(recorded["idx"].astype(np.int64))
    exact = {name: values[point] for name, point in RECORDED.items()}
    exact["y"] = heads_side_by_side(exact["y"])
    exact["qkv"] = np.concatenate([heads_side_by_side(exact[part]) for part in "qkv"], axis=-1)
    exact["probs"] = np.exp(exact["lm_head"]) / np.exp(exact["lm_head"]).sum(axis=-1, keepdims=True)
    assert exact.keys() == recorded.keys() - {"idx"}
    for name, value in exact.items():
        assert value.shape == recorded[name].shape[-value.ndim :], name
        np.testing.assert_allclose(value, recorded[name].reshape(value.shape), rtol=0, atol=CLOSE, err_msg=name)


def test_the_other_gelu_would_be_seen(recorded: Weights, weights: Weights) -> None:
    erf = logits(replace(CONFIG, mlp="gelu"), weights, recorded["idx"].astype(np.int64))
    assert np.abs(erf - recorded["lm_head"]).max() > 10 * CLOSE


def test_all_729_inputs_are_sorted_right(run: Run) -> None:
    """Each digit is right after the right ones before it, so decoding greedily gives them all."""
    in_order = np.sort(ALL_INPUTS, axis=1)
    said = run(np.concatenate([ALL_INPUTS, in_order[:, :-1]], axis=1))["logits"][:, 5:].argmax(axis=-1)
    assert len(said) == 729
    np.testing.assert_array_equal(said, in_order)


def test_both_decoders_sort_as_they_generate(model: GPT, weights: Weights) -> None:
    prompts = ALL_INPUTS[::91]
    options = SamplingConfig(temperature=0, max_new_tokens=6, overflow="slide")  # the sixth digit is a twelfth id
    for decoder in (TorchDecoder(model, n_slots=9), NumpyDecoder(CONFIG, weights, n_slots=9)):
        made = generate(decoder, None, prompts, options)
        np.testing.assert_array_equal([each.ids for [each] in made], np.sort(prompts, axis=1))


def test_all_729_inputs_are_sorted_by_transformers(weights: Weights, tmp_path: Path, transformers: ModuleType) -> None:
    assert write_directory(tmp_path, CONFIG, weights).family == "gpt2"
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    in_order = np.sort(ALL_INPUTS, axis=1)
    ids_BT = torch.from_numpy(ALL_INPUTS)
    with torch.no_grad():
        for _ in range(6):
            ids_BT = torch.cat([ids_BT, theirs(ids_BT).logits[:, -1:].argmax(dim=-1)], dim=1)
    options = {"do_sample": False, "top_k": None, "max_new_tokens": 5, "pad_token_id": 0}  # 5: it has 11 positions
    prompts = torch.from_numpy(ALL_INPUTS)
    generated = theirs.generate(prompts, attention_mask=torch.ones_like(prompts), **options)
    np.testing.assert_array_equal(ids_BT[:, 6:], in_order)
    np.testing.assert_array_equal(generated[:, 6:], in_order[:, :5])


def test_its_checkpoint_as_mingpt_saves_it_is_the_same_model(shared_data, weights: Weights, tmp_path: Path) -> None:
    tensors = tensors_of(shared_data("gpt-nano-sort-model.json"))
    assert "transformer.h.0.attn.bias" in tensors
    torch.save({name: torch.tensor(array) for name, array in tensors.items()}, tmp_path / "model.pt")
    said = {
        "model": {"model_type": "gpt-nano", "vocab_size": 3, "block_size": 11, "attn_pdrop": 0.1, "embd_pdrop": 0.1}
    }
    (tmp_path / "config.json").write_text(json.dumps(said), encoding="utf-8")
    stored = read_torch_checkpoint(tmp_path / "model.pt")
    assert stored.config == CONFIG
    read = dict(stored.arrays)
    assert read.keys() == weights.keys()
    for name, array in read.items():
        np.testing.assert_array_equal(array, weights[name])
