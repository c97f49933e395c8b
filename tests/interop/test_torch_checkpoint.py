"""Checkpoints of nanoGPT and minGPT: the logits of a plain forward pass over their tensors, and strict refusals."""

import json
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from nextok.errors import CheckpointError, TokenizerError
from nextok.interop.stored import StoredModel
from nextok.interop.torch_checkpoint import read_torch_checkpoint
from nextok.model import build, load_weights
from nextok.spec import ModelConfig, parameter_shapes

ARGS = {"n_layer": 2, "n_head": 3, "n_embd": 12, "block_size": 10, "bias": True, "vocab_size": 17, "dropout": 0.2}
MINGPT = {"model_type": None, "n_layer": 2, "n_head": 3, "n_embd": 12, "vocab_size": 17, "block_size": 10}
CONFIG = ModelConfig(n_layers=2, n_heads=3, d_model=12, context=10, vocab_size=17, mlp="gelu", dropout=0.2)


def state(*, bias=True, tied=True, masks=False, seed=0):
    """Returns the tensors of a small model under the names of both programs, every one different."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(shape, generator=draw) * 0.3

    tensors = {"transformer.wte.weight": random(17, 12), "transformer.wpe.weight": random(10, 12)}
    shapes = {"ln_1": (12,), "attn.c_attn": (36, 12), "attn.c_proj": (12, 12), "ln_2": (12,)}
    shapes |= {"mlp.c_fc": (48, 12), "mlp.c_proj": (12, 48)}
    modules = {f"transformer.h.{i}.{name}": shape for i in range(2) for name, shape in shapes.items()}
    for name, shape in (modules | {"transformer.ln_f": (12,)}).items():
        tensors[f"{name}.weight"] = random(*shape)
        if bias:
            tensors[f"{name}.bias"] = random(shape[0])
    if masks:
        tensors |= {f"transformer.h.{i}.attn.bias": torch.tril(torch.ones(1, 1, 10, 10)) for i in range(2)}
    return tensors | {"lm_head.weight": tensors["transformer.wte.weight"] if tied else random(17, 12)}


def nanogpt(tensors, **changes):
    args = {name: value for name, value in (ARGS | changes).items() if value is not ...}
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"betas": (0.9, 0.95), "params": [0]}]}
    rest = {"iter_num": 500, "best_val_loss": torch.tensor(1.5), "config": {"dataset": "shakespeare_char", "lr": 1e-3}}
    return {"model": tensors, "optimizer": optimizer, "model_args": args, **rest}


def logits_of_names(tensors, ids_BT, *, heads=3, approximate="none"):
    """Returns the logits of a plain GPT-2 over tensors `[out, in]`, written anew from the formulas."""

    def linear(x, name):
        return F.linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors.get(f"{name}.bias"), 1e-5)

    x = tensors["transformer.wte.weight"][ids_BT] + tensors["transformer.wpe.weight"][: ids_BT.shape[1]]
    for i in range(2):
        block = f"transformer.h.{i}"
        parts = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn").chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(mixed, f"{block}.attn.c_proj")
        up = F.gelu(linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc"), approximate=approximate)
        x = x + linear(up, f"{block}.mlp.c_proj")
    return linear(norm(x, "transformer.ln_f"), "lm_head")


def logits_of(stored: StoredModel, ids_BT):
    model = build(stored.config, seed=9).eval()
    load_weights(model, {name: np.array(array) for name, array in stored.arrays})
    with torch.no_grad():
        return model(ids_BT)


@pytest.fixture
def save(tmp_path):
    def write(content, name="ckpt.pt", **options):
        path = tmp_path / name
        torch.save(content, path, **options)
        return path

    return write


@pytest.fixture(name="ids_BT")
def ids():
    return torch.randint(0, 17, (2, 10), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_nanogpt_computes_the_same_here(save, ids_BT, bias, tied):
    tensors = state(bias=bias, tied=tied)
    stored = read_torch_checkpoint(save(nanogpt(tensors, bias=bias)))
    assert (stored.config.mlp, stored.config.bias, stored.config.tied_head) == ("gelu", bias, tied)
    assert stored.tokenizer is None
    torch.testing.assert_close(logits_of(stored, ids_BT), logits_of_names(tensors, ids_BT), rtol=0, atol=1e-5)


def test_mingpt_computes_the_same_here_with_the_other_gelu_and_its_own_head(save, ids_BT):
    tensors = state(tied=False, masks=True)
    path = save(tensors, "model.pt")
    path.with_name("config.json").write_text(json.dumps({"model": MINGPT | {"resid_pdrop": 0.1}}), encoding="utf-8")
    stored = read_torch_checkpoint(path)
    assert (stored.config.mlp, stored.config.tied_head) == ("gelu_tanh", False)
    expected = logits_of_names(tensors, ids_BT, approximate="tanh")
    torch.testing.assert_close(logits_of(stored, ids_BT), expected, rtol=0, atol=1e-5)
    assert (expected - logits_of_names(tensors, ids_BT)).abs().max() > 1e-4  # the GELUs are told apart


def test_weights_come_in_native_order_and_the_config_is_complete(save):
    stored = read_torch_checkpoint(save(nanogpt(state())))
    assert stored.config == CONFIG
    assert {name: array.shape for name, array in stored.arrays} == parameter_shapes(CONFIG)


def test_a_nanogpt_from_before_bias_was_an_option_has_the_gelu_of_its_time(save):
    assert read_torch_checkpoint(save(nanogpt(state(), bias=...))).config.mlp == "gelu_tanh"


@pytest.mark.parametrize("mlp", ["gelu", "gelu_tanh"])
def test_the_gelu_can_be_given(save, mlp):
    assert read_torch_checkpoint(save(nanogpt(state())), mlp=mlp).config.mlp == mlp


def test_the_head_may_be_left_out_or_be_a_copy_of_the_embedding(save):
    tensors = state()
    copied = tensors | {"lm_head.weight": tensors["lm_head.weight"].clone()}
    assert read_torch_checkpoint(save(nanogpt(copied))).config.tied_head
    del tensors["lm_head.weight"]
    assert read_torch_checkpoint(save(nanogpt(tensors))).config.tied_head


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_orig_mod.module._orig_mod.", "module.module."])
def test_any_nesting_of_wrappers_is_taken_off(save, ids_BT, prefix):
    tensors = state()
    stored = read_torch_checkpoint(save(nanogpt({prefix + name: tensor for name, tensor in tensors.items()})))
    torch.testing.assert_close(logits_of(stored, ids_BT), logits_of_names(tensors, ids_BT), rtol=0, atol=1e-5)


def test_masks_are_passed_over_and_the_bias_of_c_attn_is_not(save):
    tensors = state(masks=True)
    arrays = dict(read_torch_checkpoint(save(nanogpt(tensors))).arrays)
    assert np.array_equal(arrays["blocks.1.attn.qkv.bias"], tensors["transformer.h.1.attn.c_attn.bias"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_exactly(save, dtype):
    halves = {name: tensor.to(dtype) for name, tensor in state().items()}
    arrays = dict(read_torch_checkpoint(save(nanogpt(halves))).arrays)
    assert arrays["embed.tokens.weight"].dtype == np.float32
    assert np.array_equal(arrays["embed.tokens.weight"], halves["transformer.wte.weight"].float())


def test_a_file_from_before_torch_1_6_is_read_too(save, ids_BT):
    tensors = state()
    path = save(nanogpt(tensors), _use_new_zipfile_serialization=False)
    stored = read_torch_checkpoint(path)
    torch.testing.assert_close(logits_of(stored, ids_BT), logits_of_names(tensors, ids_BT), rtol=0, atol=1e-5)


def test_a_padded_vocabulary_is_kept(save):
    assert read_torch_checkpoint(save(nanogpt(state()))).config.vocab_size == 17


def test_the_characters_beside_it_come_with_it(save):
    path = save(nanogpt(state()))
    letters = "abcdefghijklmnopq"
    meta = {"vocab_size": 17, "itos": dict(enumerate(letters)), "stoi": {c: i for i, c in enumerate(letters)}}
    path.with_name("meta.pkl").write_bytes(pickle.dumps(meta))
    assert read_torch_checkpoint(path).tokenizer.encode("cab").tolist() == [2, 0, 1]
    moved = path.with_name("meta.pkl").rename(path.with_name("other.pkl"))
    assert read_torch_checkpoint(path).tokenizer is None
    assert read_torch_checkpoint(path, meta=moved).tokenizer.decode([2, 0, 1]) == "cab"


def test_characters_of_another_corpus_are_refused(save):
    path = save(nanogpt(state()))
    meta = {"vocab_size": 2, "itos": {0: "a", 1: "b"}, "stoi": {"a": 0, "b": 1}}
    path.with_name("meta.pkl").write_bytes(pickle.dumps(meta))
    with pytest.raises(CheckpointError, match="has 2 characters, but the model in .* has 17 ids"):
        read_torch_checkpoint(path)


def test_characters_that_are_asked_for_have_to_be_there(save, tmp_path):
    with pytest.raises(TokenizerError, match=r"absent\.pkl"):
        read_torch_checkpoint(save(nanogpt(state())), meta=tmp_path / "absent.pkl")


# --- what the file does not say


def test_heads_that_nothing_tells_have_to_be_given(save):
    path = save(state(masks=True), "model.pt")
    with pytest.raises(CheckpointError, match="how many attention heads") as caught:
        read_torch_checkpoint(path)
    assert "n_heads" in caught.value.hint
    assert read_torch_checkpoint(path, n_heads=3).config.n_heads == 3
    with pytest.raises(CheckpointError, match="not divisible by n_heads = 5"):
        read_torch_checkpoint(path, n_heads=5)


def test_mingpts_config_names_a_type_where_it_was_written_before_the_numbers(save):
    path = save(state(masks=True, tied=False), "model.pt")
    table = dict.fromkeys(MINGPT) | {"model_type": "gpt-nano", "embd_pdrop": 0.1}
    path.with_name("config.json").write_text(json.dumps({"system": {}, "model": table}), encoding="utf-8")
    config = read_torch_checkpoint(path).config
    assert (config.n_heads, config.dropout) == (3, 0.1)


def test_a_config_of_transformers_beside_it_says_nothing_of_mingpt(save):
    path = save(state(masks=True), "model.pt")
    path.with_name("config.json").write_text(json.dumps({"model_type": "gpt2", "n_head": 4}), encoding="utf-8")
    assert read_torch_checkpoint(path, n_heads=2).config.n_heads == 2


def test_tensors_of_an_unknown_program_need_their_gelu_said(save):
    path = save(state())
    with pytest.raises(CheckpointError, match="GELU is not known") as caught:
        read_torch_checkpoint(path, n_heads=3)
    assert "gelu_tanh for minGPT" in caught.value.hint
    assert read_torch_checkpoint(path, n_heads=3, mlp="gelu").config.mlp == "gelu"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_layer": 3}, r"model_args\.n_layer = 3, but the tensors make it 2"),
        ({"n_embd": 24}, r"model_args\.n_embd = 24, but the tensors make it 12"),
        ({"vocab_size": 50304}, r"model_args\.vocab_size = 50304, but the tensors make it 17"),
        ({"block_size": "10"}, r"model_args\.block_size = '10', but the tensors make it 10"),
        ({"bias": False}, r"model_args\.bias = False, but the tensors make it True"),
        ({"bias": 1}, r"model_args\.bias = 1, but the tensors make it True"),
        ({"n_head": 5}, "d_model = 12 is not divisible by n_heads = 5"),
        ({"n_head": "3"}, r"model_args\.n_head = '3', which is not a whole number"),
        ({"n_head": torch.tensor(3)}, "not a whole number"),
        ({"n_head": -3}, "how many attention heads"),
        ({"dropout": 1.5}, r"dropout = 1\.5 is not in"),
        ({"use_rmsnorm": True}, r"model_args\.use_rmsnorm, which nanoGPT and minGPT do not have"),
    ],
)
def test_words_that_the_tensors_contradict_are_refused(save, changes, told):
    with pytest.raises(CheckpointError, match=told):
        read_torch_checkpoint(save(nanogpt(state(), **changes)))


def test_heads_that_the_file_contradicts_are_refused(save):
    with pytest.raises(CheckpointError, match="n_head = 3, not the 4 heads asked for"):
        read_torch_checkpoint(save(nanogpt(state())), n_heads=4)


# --- tensors that are not those of a GPT


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop("transformer.h.1.ln_2.weight"), r"lacks h\.1\.ln_2\.weight"),
        (lambda t: t.pop("transformer.ln_f.weight"), r"lacks ln_f\.weight"),
        (lambda t: t.pop("transformer.wte.weight"), r"no matrix wte\.weight"),
        (lambda t: t.update({"transformer.h.0.attn.biases": torch.zeros(3)}), "holds unexpected .*attn.biases"),
        (
            lambda t: t.update({"transformer.h.7.ln_1.weight": torch.zeros(12)}),
            "n_layer = 2, but the tensors make it 3",
        ),
        (lambda t: t.update({"module.lm_head.weight": torch.zeros(3)}), r"'lm_head\.weight' twice"),
        (lambda t: t.update({"transformer.wpe.weight": torch.zeros(10)}), r"no matrix wpe\.weight"),
        (
            lambda t: t.update({"transformer.h.0.attn.c_attn.weight": torch.zeros(12, 36)}),
            r"c_attn\.weight .* shape \[12, 36\]; .* \[36, 12\]",
        ),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(12).double()}), "dtype torch.float64"),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(1).expand(12)}), "no tensor with its own numbers"),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(12).to_sparse()}), "no tensor with its own numbers"),
        (lambda t: t.update({"transformer.ln_f.bias": torch.zeros(12, device="meta")}), "no tensor with its own"),
        (lambda t: t.update({"transformer.ln_f.bias": [0.0] * 12}), "no tensor with its own numbers"),
        (lambda t: t.update({3: torch.zeros(1)}), "holds 3 among its weights"),
        (lambda t: t.clear(), "no weights by name"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_tensors_of_another_model_are_refused_by_name(save, change, told):
    tensors = state()
    change(tensors)
    with pytest.raises(CheckpointError, match=told):
        read_torch_checkpoint(save(nanogpt(tensors)))


@pytest.mark.parametrize("content", [[1, 2], "text", 3, torch.zeros(3), {"model": 3}, {"model": torch.zeros(2)}, {}])
def test_what_is_no_checkpoint_is_refused(save, content):
    with pytest.raises(CheckpointError, match="no weights by name"):
        read_torch_checkpoint(save(content))


def test_a_file_that_changes_while_it_is_read_is_refused(save, monkeypatch):
    monkeypatch.setattr("nextok.interop.torch_checkpoint._MAPPED_BYTES", 0)
    path = save(nanogpt(state()))
    expected = dict(read_torch_checkpoint(path).arrays)
    arrays = read_torch_checkpoint(path).arrays
    name, first = next(arrays)
    assert np.array_equal(first, expected[name])
    save(nanogpt(state() | {"transformer.ln_f.bias": torch.zeros(11)}), "new.pt").replace(path)
    with pytest.raises(CheckpointError, match="was changed while it was read"):
        list(arrays)
