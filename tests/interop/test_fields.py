import dataclasses
import json

import pytest

from nextok.errors import CheckpointError
from nextok.interop.fields import family_of, read_fields, written_fields
from nextok.spec import ModelConfig, preset_config

GPT2_OF_OPENAI = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32,
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
}


@pytest.fixture
def read(tmp_path):
    def read_values(values):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        return read_fields(path)

    return read_values


@pytest.mark.parametrize(
    ("preset", "recipe", "family"),
    [("gpt2", None, "gpt2"), ("nano", "classic", "gpt2"), ("lesson-a", None, "gpt2"), ("nano", "modern", "qwen3")],
)
def test_presets_and_recipes_are_of_a_family(preset, recipe, family):
    assert family_of(preset_config(preset, recipe)) == (family, "")


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "nextok"])
def test_each_family_is_recognised_and_read_back(family, tiny, read):
    assert family_of(tiny[family])[0] == family
    assert read(written_fields(tiny[family], family, 3)) == (family, tiny[family])


@pytest.mark.parametrize(
    ("base", "change", "told"),
    [
        ("gpt2", {"norm_placement": "after"}, "gpt2, has no norm_placement = 'after'."),
        ("gpt2", {"mask": "none"}, "gpt2, has no mask = 'none'."),
        ("gpt2", {"logit_softcap": 30.0}, "gpt2, has no logit_softcap = 30.0."),
        ("gpt2", {"norm": "rmsnorm"}, "gpt2, has no norm = 'rmsnorm'."),
        ("gpt2", {"mlp": "swiglu"}, "gpt2, has no mlp = 'swiglu'."),
        ("gpt2", {"position": "rope"}, "gpt2, has no position = 'rope'."),
        ("gpt2", {"qk_norm": True}, "gpt2, has no qk_norm = True."),
        ("gpt2", {"n_kv_heads": 1}, "gpt2, has no n_kv_heads = 1 for n_heads = 3."),
        ("gpt2", {"d_head": 6}, "gpt2, has no d_head = 6 for d_model / n_heads = 12 / 3."),
        ("gpt2", {"position": "rope", "qk_norm": True}, "gpt2, has no position = 'rope' and no qk_norm = True."),
        ("llama", {"mlp": "relu2"}, "llama, has no mlp = 'relu2'."),
        ("llama", {"d_model": 13}, "llama, has no d_model = 13 that n_heads = 3 does not divide."),
        ("qwen3", {"bias": True}, "llama, has no qk_norm = True."),
        ("qwen3", {"norm": "layernorm"}, "qwen3, has no norm = 'layernorm'."),
    ],
)
def test_a_part_that_no_family_has_is_told(tiny, base, change, told):
    family, reason = family_of(dataclasses.replace(tiny[base], **change))
    assert family == "nextok"
    assert told in reason


def test_what_peers_assert_or_read_under_another_name_is_written(tiny):
    fields = written_fields(tiny["gpt2"], "gpt2", None)
    assert fields["n_positions"] == fields["n_ctx"] == 10
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        assert fields[name] is False
    assert fields["architectures"] == ["GPT2LMHeadModel"]
    assert fields["dtype"] == "float32"
    assert fields["eos_token_id"] is fields["bos_token_id"] is None  # absent, it would be 50256


def test_the_rotary_base_is_written_for_old_and_new_readers(tiny):
    fields = written_fields(dataclasses.replace(tiny["qwen3"], rope_base=5e5), "qwen3", 0)
    assert fields["rope_theta"] == fields["rope_parameters"]["rope_theta"] == 5e5
    assert fields["use_sliding_window"] is False
    assert fields["head_dim"] == 6


@pytest.mark.parametrize(
    ("ours", "theirs"), [("gelu_tanh", "gelu_new"), ("gelu", "gelu"), ("relu", "relu"), ("relu2", "relu2")]
)
def test_activations_have_their_exact_names(tiny, ours, theirs):
    assert written_fields(dataclasses.replace(tiny["gpt2"], mlp=ours), "gpt2", 0)["activation_function"] == theirs


def test_the_config_of_openai_is_the_preset(read):
    family, config = read(GPT2_OF_OPENAI)
    assert family == "gpt2"
    assert config == dataclasses.replace(preset_config("gpt2"), dropout=0.1)


def test_dropout_that_differs_by_part_is_off(read):
    assert read({**GPT2_OF_OPENAI, "attn_pdrop": 0.0})[1].dropout == 0.0


def test_absent_llama_fields_have_the_values_of_transformers(read):
    config = read(LLAMA)[1]
    assert (config.context, config.norm_eps, config.rope_base, config.tied_head) == (2048, 1e-6, 10_000.0, False)
    assert (config.n_kv_heads, config.d_head, config.bias) == (3, 4, False)


@pytest.mark.parametrize(
    "change",
    [
        {"rope_theta": 5e5},
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_theta": 1e4},
        {"rope_scaling": {"type": "default"}, "rope_theta": 500_000},
    ],
)
def test_the_rotary_base_is_found_wherever_it_is_written(read, change):
    assert read({**LLAMA, **change})[1].rope_base == 5e5


def test_llama_with_biases_everywhere_is_read(read):
    assert read({**LLAMA, "attention_bias": True, "mlp_bias": True})[1].bias is True


@pytest.mark.parametrize(
    ("base", "change", "told"),
    [
        (GPT2_OF_OPENAI, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        (GPT2_OF_OPENAI, {"scale_attn_weights": False}, "scale_attn_weights = False"),
        (GPT2_OF_OPENAI, {"add_cross_attention": True}, "add_cross_attention = True"),
        (GPT2_OF_OPENAI, {"activation_function": "silu"}, "activation_function = 'silu'"),
        (GPT2_OF_OPENAI, {"quantization_config": {"bits": 4}}, "quantization_config"),
        (LLAMA, {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias = True"),
        (LLAMA, {"attention_bias": True}, "mlp_bias = False"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        (LLAMA, {"rope_scaling": {"rope_type": "llama3"}, "rope_parameters": {"rope_theta": 1e4}}, "rope_scaling"),
        (LLAMA, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_parameters"),
        (LLAMA, {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "rope_parameters"),
        (LLAMA, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters"),
        (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ({**LLAMA, "model_type": "qwen3"}, {"attention_bias": True}, "attention_bias = True"),
        ({**LLAMA, "model_type": "qwen3"}, {"use_sliding_window": True}, "use_sliding_window = True"),
        ({**LLAMA, "model_type": "qwen3"}, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    ],
)
def test_a_field_that_changes_the_computation_is_refused_by_name(read, base, change, told):
    with pytest.raises(CheckpointError) as caught:
        read({**base, **change})
    assert told in caught.value.message
    assert "in nextok" in caught.value.message


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba'"),
        ({"n_embd": 8}, "no model_type"),
        ({"model_type": 3}, "not text"),
        ({"model_type": "nextok"}, "has no nextok"),
        ({"model_type": "nextok", "nextok": {"vocab_size": 3, "d_modle": 8}}, "d_modle"),
        ({"model_type": "nextok", "nextok": {"vocab_size": 3, "d_model": 9}}, "not divisible"),
        ({k: v for k, v in GPT2_OF_OPENAI.items() if k != "n_head"}, "has no n_head"),
        ({**GPT2_OF_OPENAI, "n_embd": "768"}, "n_embd = '768', which is not a whole number"),
        ({**GPT2_OF_OPENAI, "n_embd": 769}, "not divisible"),
        ({**GPT2_OF_OPENAI, "nextok": {"d_model": 8}}, "nextok.d_model"),
        ({**GPT2_OF_OPENAI, "nextok": {"init": "zeros"}}, "init = 'zeros'"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused_by_name(read, values, told):
    with pytest.raises(CheckpointError, match="config.json") as caught:
        read(values)
    assert told in caught.value.message


def test_an_unknown_family_lists_those_known(read):
    with pytest.raises(CheckpointError) as caught:
        read({"model_type": "mamba"})
    assert caught.value.hint == "Known: gpt2, llama, qwen3, nextok."


def test_fields_changed_by_another_tool_count(tiny, read):
    fields = written_fields(tiny["gpt2"], "gpt2", 0) | {"vocab_size": 40, "n_positions": 5}
    assert read(fields)[1] == dataclasses.replace(tiny["gpt2"], vocab_size=40, context=5)


def test_what_only_nextok_knows_survives(read):
    config = ModelConfig(vocab_size=9, dropout=0.25, init="torch", bias=False, rope_base=77.0)
    assert read(written_fields(config, "gpt2", 0))[1] == config
