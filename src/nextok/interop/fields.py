"""`config.json` in the words of each family: which family has a model exactly, what to write, and what a file means.

What a family's fields cannot say (the dropout of every part, how weights were first drawn) stands under the key
`nextok`, so that a directory read back gives the same `ModelConfig`. Where a field of the family says something, it
alone counts: tools that change the model change those fields. Tensor names are in `names.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nextok.config import from_mapping, to_mapping
from nextok.errors import CheckpointError, ConfigError
from nextok.interop.names import Family
from nextok.interop.typed_json import TypedJson
from nextok.spec import ModelConfig

_OURS = "nextok"
_ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu": "gelu", "relu": "relu", "relu2": "relu2"}
_READ_ACTIVATIONS = {foreign: ours for ours, foreign in _ACTIVATIONS.items()} | {
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_python": "gelu",
}
_EVERY_FAMILY: Mapping[str, tuple[object, ...]] = {
    "norm_placement": ("before",),
    "logit_softcap": (0.0,),
    "bigrams": (0,),
    "mask": ("causal",),
}
_LLAMA_PARTS = {**_EVERY_FAMILY, "norm": ("rmsnorm",), "position": ("rope",), "mlp": ("swiglu",)}
_PARTS: Mapping[Family, Mapping[str, tuple[object, ...]]] = {
    "gpt2": {
        **_EVERY_FAMILY,
        "norm": ("layernorm",),
        "position": ("learned",),
        "mlp": tuple(_ACTIVATIONS),
        "qk_norm": (False,),
    },
    "llama": {**_LLAMA_PARTS, "qk_norm": (False,)},
    "qwen3": {**_LLAMA_PARTS, "qk_norm": (True,), "bias": (False,)},
}
_KEPT: Mapping[Family, tuple[str, ...]] = {
    "gpt2": ("dropout", "init", "bias", "rope_base"),
    "llama": ("dropout", "init"),
    "qwen3": ("dropout", "init"),
}
_ARCHITECTURES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def family_of(config: ModelConfig) -> tuple[Family, str]:
    """Returns the family of transformers that computes exactly this model, or `nextok` and the reason why none does."""
    lacking = {family: _lacking(config, family) for family in _PARTS}
    for family, parts in lacking.items():
        if not parts:
            return family, ""
    nearest = min(lacking, key=lambda family: len(lacking[family]))
    missed = " and no ".join(lacking[nearest])
    return "nextok", f"No family of transformers has this model; the nearest, {nearest}, has no {missed}."


def written_fields(config: ModelConfig, family: Family, end_of_text: int | None) -> dict[str, Any]:
    """Returns the whole config.json of a model in the words of the family.

    Args:
        config: The model.
        family: What `family_of` found.
        end_of_text: The id that stands before and after every document; written even where it is None, because
            GPT-2's default would be 50256.
    """
    shared = {
        "model_type": family,
        "dtype": "float32",
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": config.tied_head,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "pad_token_id": None,
    }
    if family == "nextok":
        return {**shared, _OURS: to_mapping(config)}
    fields = _gpt2_fields(config) if family == "gpt2" else _llama_fields(config, family)
    kept = {name: getattr(config, name) for name in _KEPT[family]}
    return {"architectures": [_ARCHITECTURES[family]], **shared, **fields, _OURS: kept}


def read_fields(path: Path) -> tuple[Family, ModelConfig]:
    """Returns the family of a config.json, and the model it describes.

    Raises:
        CheckpointError: for a family that is not known, a field that is missing or of the wrong type, or one that asks
            for a computation nextok does not have; by name, with the reason.
    """
    fields = TypedJson.read(path)
    family = fields.text("model_type", "")
    known: tuple[Family, ...] = (*_PARTS, "nextok")
    chosen = next((name for name in known if name == family), None)
    if chosen is None:
        came = f"model_type {family!r}, which nextok does not know" if family else "no model_type"
        raise CheckpointError(f"{path} has {came}.", f"Known: {', '.join(known)}.")
    if chosen == "nextok":
        values = fields.table(_OURS)
    else:
        fields.require("quantization_config", (None,), "quantised weights of other tools are not read")
        values = {**(_read_gpt2(fields) if chosen == "gpt2" else _read_llama(fields, chosen)), **_kept(fields, chosen)}
    try:
        return chosen, from_mapping(ModelConfig, values, _OURS)
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no model that can be built. {error.message}", error.hint) from error


def _lacking(config: ModelConfig, family: Family) -> list[str]:
    """Returns the parts of the model that the family has not, in words."""
    parts = [
        f"{name} = {getattr(config, name)!r}"
        for name, allowed in _PARTS[family].items()
        if getattr(config, name) not in allowed
    ]
    if family == "gpt2" and config.n_kv_heads != config.n_heads:
        parts.append(f"n_kv_heads = {config.n_kv_heads} for n_heads = {config.n_heads}")
    if family == "gpt2" and config.n_heads * config.d_head != config.d_model:
        parts.append(f"d_head = {config.d_head} for d_model / n_heads = {config.d_model} / {config.n_heads}")
    if family == "llama" and config.d_model % config.n_heads:
        parts.append(f"d_model = {config.d_model} that n_heads = {config.n_heads} does not divide")
    return parts


def _gpt2_fields(config: ModelConfig) -> dict[str, Any]:
    return {
        "n_positions": config.context,
        "n_ctx": config.context,  # the name that the converter of llama.cpp reads
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "activation_function": _ACTIVATIONS[config.mlp],
        "layer_norm_epsilon": config.norm_eps,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,  # vLLM asserts that these three are there and false
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
    }


def _llama_fields(config: ModelConfig, family: Family) -> dict[str, Any]:
    own: dict[str, Any] = {"mlp_bias": config.bias} if family == "llama" else {"use_sliding_window": False}
    return own | {
        "max_position_embeddings": config.context,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_base,  # for readers before transformers 5, which has it in the next line
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
        "attention_bias": config.bias,
        "attention_dropout": config.dropout,
    }


def _read_gpt2(fields: TypedJson) -> dict[str, object]:
    fields.require(
        "scale_attn_weights", (True,), "scores are always divided by the root of the head width", default=True
    )
    fields.require("scale_attn_by_inverse_layer_idx", (False,), "scores do not depend on the layer", default=False)
    fields.require("add_cross_attention", (False,), "there is no encoder to attend to", default=False)
    activation = fields.require(
        "activation_function", tuple(_READ_ACTIVATIONS), "there is no such activation", default="gelu_new"
    )
    drops = {fields.number(name, 0.1) for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop")}
    return {
        "norm": "layernorm",
        "position": "learned",
        "mlp": _READ_ACTIVATIONS[str(activation)],
        "vocab_size": fields.whole("vocab_size"),
        "context": fields.whole("n_positions"),
        "d_model": fields.whole("n_embd"),
        "n_layers": fields.whole("n_layer"),
        "n_heads": fields.whole("n_head"),
        "d_ff": fields.whole("n_inner", 0),
        "norm_eps": fields.number("layer_norm_epsilon", 1e-5),
        "tied_head": fields.switch("tie_word_embeddings", default=True),
        # counts in training alone; three different numbers have no equal here
        "dropout": drops.pop() if len(drops) == 1 else 0.0,
    }


def _read_llama(fields: TypedJson, family: Family) -> dict[str, object]:
    """Absent fields are those of transformers' LlamaConfig and Qwen3Config."""
    qwen3 = family == "qwen3"
    fields.require("hidden_act", ("silu", "swish"), "the gate is a SiLU", default="silu")
    bias = False
    if qwen3:
        fields.require("attention_bias", (False,), "this block has no biases", default=False)
        fields.require("use_sliding_window", (False,), "attention reaches the whole context", default=False)
        fields.require_all("layer_types", "full_attention", "attention reaches the whole context")
    else:
        bias = fields.switch("attention_bias", default=False)
        fields.require("mlp_bias", (bias,), "biases are everywhere or nowhere", default=False)
    heads = fields.whole("num_attention_heads")
    return {
        "norm": "rmsnorm",
        "position": "rope",
        "mlp": "swiglu",
        "qk_norm": qwen3,
        "bias": bias,
        "vocab_size": fields.whole("vocab_size"),
        "context": fields.whole("max_position_embeddings", 32_768 if qwen3 else 2048),
        "d_model": fields.whole("hidden_size"),
        "d_ff": fields.whole("intermediate_size"),
        "n_layers": fields.whole("num_hidden_layers"),
        "n_heads": heads,
        "n_kv_heads": fields.whole("num_key_value_heads", heads),
        "d_head": fields.whole("head_dim", 128 if qwen3 else 0),
        "norm_eps": fields.number("rms_norm_eps", 1e-6),
        "rope_base": _rope_base(fields),
        "tied_head": fields.switch("tie_word_embeddings", default=False),
    }


def _rope_base(fields: TypedJson) -> float:
    """Returns the base of the angles, from the table of transformers 5 or the single fields before it."""
    fields.require("partial_rotary_factor", (1.0,), "whole heads are rotated", default=1.0)
    theta = fields.number("rope_theta", 10_000.0)
    for name in ("rope_scaling", "rope_parameters"):
        table = fields.table(name, {})
        kind = table.get("rope_type", table.get("type", "default"))
        by_layer = any(isinstance(value, Mapping) for value in table.values())
        if kind != "default" or table.get("partial_rotary_factor") not in (None, 1.0) or by_layer:
            raise fields.refused(name, table, "angles are never scaled, and the same in every layer and coordinate")
        theta = TypedJson(table, fields.path, f"{name}.").number("rope_theta", theta)
    return theta


def _kept(fields: TypedJson, family: Family) -> dict[str, object]:
    """Returns what the family's own fields cannot say, where nextok wrote the directory."""
    kept = fields.table(_OURS, {})
    for name in kept:
        if name not in _KEPT[family]:
            raise fields.refused(f"{_OURS}.{name}", kept[name], f"only {', '.join(_KEPT[family])} stand there")
    return dict(kept)
