"""Tensor names of GGUF files, and how their tensors lie in the native ones.

All matrices are `[out, in]`. In files of the architecture `llama`, the rows of queries and keys are permuted within
each head, so that the two coordinates which turn together lie side by side; nextok and transformers have them half a
head apart. Files of `qwen3` keep that order. Keys of the metadata are in `gguf_fields.py`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from nextok.interop.names import Family, Place, places
from nextok.spec import ModelConfig

EMBEDDING, HEAD = "token_embd.weight", "output.weight"

_MODULES: Mapping[str, tuple[str, ...]] = {
    "embed.tokens": ("token_embd",),
    "embed.positions": ("position_embd",),
    "norm1": ("attn_norm",),
    "attn.qkv": ("attn_q", "attn_k", "attn_v"),
    "attn.q_norm": ("attn_q_norm",),
    "attn.k_norm": ("attn_k_norm",),
    "attn.out": ("attn_output",),
    "norm2": ("ffn_norm",),
    "mlp.up": ("ffn_gate", "ffn_up"),
    "mlp.down": ("ffn_down",),
    "final_norm": ("output_norm",),
    "head": ("output",),
}
_GPT2_MODULES: Mapping[str, tuple[str, ...]] = {**_MODULES, "attn.qkv": ("attn_qkv",), "mlp.up": ("ffn_up",)}


def gguf_places(family: Family, config: ModelConfig) -> dict[str, Place]:
    """Returns where each native tensor lies in a GGUF file, by native name; biases of gpt2 too, which it always has."""
    modules = _GPT2_MODULES if family == "gpt2" else _MODULES
    return {
        name: replace(place, names=_names(modules, name), transposed=False)
        for name, place in places(family, config).items()
    }


def paired_heads(family: Family, config: ModelConfig, name: str) -> int:
    """Returns the number of heads whose rows the file permutes in this tensor of its own; 0 where they are in order."""
    if family != "llama":
        return 0
    module = name.split(".")[-2]
    return {"attn_q": config.n_heads, "attn_k": config.n_kv_heads}.get(module, 0)


def to_pairs(rows: NDArray[Any], n_heads: int) -> NDArray[Any]:
    """Returns the rows of each head as files of llama have them: 0, K/2, 1, K/2 + 1, ..."""
    return rows.reshape(n_heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def to_halves(rows: NDArray[Any], n_heads: int) -> NDArray[Any]:
    """Returns the rows of each head as nextok has them: what `to_pairs` undoes."""
    return rows.reshape(n_heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _names(modules: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    module, _, kind = name.rpartition(".")
    prefix = ""
    if module.startswith("blocks."):
        _, layer, module = module.split(".", 2)
        prefix = f"blk.{layer}."
    return tuple(f"{prefix}{part}.{kind}" for part in modules[module])
