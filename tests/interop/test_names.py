import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.interop.names import is_buffer, places, plain_name, written_name
from nextok.spec import ModelConfig, parameter_shapes

WRAPPERS = st.lists(st.sampled_from(["_orig_mod", "module", "transformer", "model"]), max_size=6)


@given(outside=WRAPPERS)
def test_any_nesting_of_wrappers_and_roots_is_taken_off(outside):
    for name in ("h.0.attn.c_attn.weight", "layers.1.mlp.up_proj.weight", "blocks.0.norm1.bias", "lm_head.weight"):
        assert plain_name(".".join([*outside, name])) == name


def test_wrappers_inside_a_name_are_taken_off_too():
    assert plain_name("transformer.h.0._orig_mod.module.ln_1.weight") == "h.0.ln_1.weight"


def test_the_names_of_a_gpt2_block_are_those_of_its_files(tiny):
    names = {written_name("gpt2", part) for place in places("gpt2", tiny["gpt2"]).values() for part in place.names}
    block = {name.removeprefix("transformer.h.1.") for name in names if name.startswith("transformer.h.1.")}
    modules = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    assert block == {f"{module}.{kind}" for module in modules for kind in ("weight", "bias")}
    outside = {name for name in names if ".h." not in name}
    assert outside == {f"transformer.{name}" for name in ("wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias")}


def test_only_the_head_stands_outside_the_prefix(tiny):
    names = [written_name("qwen3", part) for place in places("qwen3", tiny["qwen3"]).values() for part in place.names]
    assert [name for name in names if not name.startswith("model.")] == ["lm_head.weight"]


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "nextok"])
def test_every_tensor_has_one_place_and_comes_back_from_it(family, tiny, random_weights):
    config = tiny[family]
    wanted = places(family, config)
    assert list(wanted) == list(parameter_shapes(config))
    names = [part for place in wanted.values() for part in place.names]
    assert len(set(names)) == len(names)
    for name, array in random_weights(config).items():
        parts = dict(wanted[name].split(array))
        assert [part.shape for part in parts.values()] == wanted[name].stored_shapes
        assert np.array_equal(wanted[name].join(list(parts.values())), array)


@pytest.mark.parametrize("module", ["attn.qkv", "attn.out", "mlp.up", "mlp.down"])
def test_all_four_kinds_of_linear_maps_are_turned_in_gpt2_even_the_square_one(module):
    config = ModelConfig(d_model=64, n_heads=4, n_layers=1, vocab_size=5)
    name = f"blocks.0.{module}.weight"
    matrix = np.random.default_rng(0).standard_normal(parameter_shapes(config)[name])
    [(_, stored)] = places("gpt2", config)[name].split(matrix)
    assert np.array_equal(stored, matrix.T)
    assert not np.array_equal(stored.ravel()[:8], matrix.ravel()[:8])


def test_nanogpt_has_the_names_of_gpt2_and_nothing_turned(tiny):
    theirs, ours = places("nanogpt", tiny["gpt2"]), places("gpt2", tiny["gpt2"])
    assert {name: place.names for name, place in theirs.items()} == {name: place.names for name, place in ours.items()}
    assert not any(place.transposed for place in theirs.values())
    assert is_buffer("nanogpt", "h.0.attn.bias")
    assert not is_buffer("nanogpt", "h.0.attn.c_attn.bias")
    assert set(places("nanogpt", dataclasses.replace(tiny["gpt2"], bias=False))) < set(theirs)


def test_tables_of_gpt2_are_not_turned():
    config = ModelConfig(d_model=8, n_heads=2, context=8, vocab_size=8)
    wanted = places("gpt2", config)
    assert not any(wanted[name].transposed for name in ("embed.tokens.weight", "embed.positions.weight"))


def test_queries_keys_and_values_are_cut_by_rows_in_this_order(tiny):
    config = tiny["llama"]  # 3 query heads and 1 of keys and values, each 6 wide
    rows = np.repeat(np.arange(30)[:, None], config.d_model, axis=1)
    parts = dict(places("llama", config)["blocks.1.attn.qkv.weight"].split(rows))
    firsts = {name: (part[0, 0], len(part)) for name, part in parts.items()}
    assert firsts == {
        "layers.1.self_attn.q_proj.weight": (0, 18),
        "layers.1.self_attn.k_proj.weight": (18, 6),
        "layers.1.self_attn.v_proj.weight": (24, 6),
    }


def test_the_gate_is_the_upper_half_of_the_first_matrix(tiny):
    config = tiny["llama"]
    rows = np.repeat(np.arange(2 * config.d_ff)[:, None], config.d_model, axis=1)
    parts = dict(places("llama", config)["blocks.0.mlp.up.weight"].split(rows))
    assert parts["layers.0.mlp.gate_proj.weight"][0, 0] == 0
    assert parts["layers.0.mlp.up_proj.weight"][0, 0] == config.d_ff


def test_biases_that_gpt2_always_has_get_a_place_without_a_native_tensor():
    config = ModelConfig(bias=False, vocab_size=5)
    extra = set(places("gpt2", config)) - set(parameter_shapes(config))
    assert extra
    assert all(name.endswith(".bias") for name in extra)


def test_mask_buffers_are_known_by_their_exact_ending():
    assert is_buffer("gpt2", "h.0.attn.bias")
    assert is_buffer("gpt2", "h.0.attn.masked_bias")
    assert is_buffer("llama", "layers.0.self_attn.rotary_emb.inv_freq")
    assert not is_buffer("gpt2", "h.0.attn.c_attn.bias")
    assert not is_buffer("gpt2", "h.0.crossattention.bias")
    assert not is_buffer("nextok", "blocks.0.attn.bias")
