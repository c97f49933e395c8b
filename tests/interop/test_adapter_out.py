"""Adapters in PEFT's layout: names and rows for each family, and the logits that PEFT gets from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from nextok.checkpoint import read_weights
from nextok.interop import family_of, write_adapter
from nextok.spec import ModelConfig

SIZE = {"n_layers": 2, "d_model": 16, "n_heads": 4, "context": 12, "vocab_size": 11}
LLAMA = {"norm": "rmsnorm", "norm_eps": 1e-6, "position": "rope", "mlp": "swiglu", "bias": False, "tied_head": False}
MODELS: dict[str, dict[str, object]] = {
    "gpt2": {},
    "llama": {**LLAMA, "n_kv_heads": 2},
    "qwen3": {**LLAMA, "n_kv_heads": 2, "qk_norm": True},
    "nextok": {"norm_placement": "after"},
}


def config_of(family: str) -> ModelConfig:
    config = ModelConfig(**{**SIZE, **MODELS[family]})  # type: ignore[arg-type]
    assert family_of(config)[0] == family
    return config


@pytest.mark.parametrize(
    ("family", "targets"),
    [
        ("gpt2", ["attn.c_attn"]),
        ("llama", ["self_attn.k_proj", "self_attn.q_proj", "self_attn.v_proj"]),
        ("nextok", ["attn.qkv"]),
    ],
)
def test_queries_keys_and_values_share_a_and_take_their_rows_of_b(
    tmp_path: Path, family: str, targets: list[str]
) -> None:
    config = config_of(family)
    a_RI = np.arange(2 * 16, dtype=np.float32).reshape(2, 16)
    b_OR = np.arange(config.qkv_width * 2, dtype=np.float32).reshape(-1, 2)
    write_adapter(tmp_path, config, {"blocks.1.attn.qkv": (a_RI, b_OR)}, rank=2, alpha=3.0)
    about = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    assert about["target_modules"] == targets
    assert (about["r"], about["lora_alpha"], about["fan_in_fan_out"]) == (2, 3.0, family == "gpt2")
    stored = read_weights(tmp_path / "adapter" / "adapter_model.safetensors")
    order = [name for kind in ("q_proj", "k_proj", "v_proj", "c_attn", "qkv") for name in stored if f".{kind}." in name]
    b_rows = np.concatenate([stored[name] for name in order if "lora_B" in name])
    np.testing.assert_array_equal(b_rows, b_OR)
    assert all(np.array_equal(stored[name], a_RI) for name in order if "lora_A" in name)
    assert len(order) == len(stored) == 2 * len(targets)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
def test_peft_computes_what_was_trained(tmp_path: Path, family: str) -> None:
    peft = pytest.importorskip("peft", reason="the oracle for adapters")
    import torch
    from transformers import AutoModelForCausalLM

    from nextok.interop import write_directory
    from nextok.model import build, weight_arrays
    from nextok.train.lora import LoraConfig, add_lora, write_adapters

    config = config_of(family)
    model = build(config, 1).eval()
    write_directory(tmp_path / "base", config, weight_arrays(model))
    add_lora(model, LoraConfig(rank=3, alpha=6.0), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0.0, 0.3)
    write_adapters(tmp_path, model)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    ids_BT = torch.arange(11)[None]
    with torch.no_grad():
        plain = theirs(ids_BT).logits
        adapted = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()(ids_BT).logits
        ours = model(ids_BT)
    assert not torch.allclose(plain, ours, atol=1e-2)
    torch.testing.assert_close(adapted, ours, atol=1e-5, rtol=1e-4)
