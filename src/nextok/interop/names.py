"""Every foreign tensor name, and how a foreign tensor lies in a native one: cut into parts, or turned on its side.

GPT-2's files hold linear maps as `[in, out]` (Conv1D), all four kinds of them; the square output projection has the
same shape either way, so no shape check would notice it turned wrongly. nanoGPT and minGPT have GPT-2's names and
`[out, in]`. Llama and Qwen3 hold queries, keys, values,
gate and up as matrices of their own, stacked here by rows. `config.json` is in `fields.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nextok.spec import ModelConfig, parameter_shapes

Family = Literal["gpt2", "llama", "qwen3", "nanogpt", "nextok"]

_WRAPPERS = frozenset({"_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_ROOTS = frozenset({"transformer", "model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a native tensor lies in a file."""

    names: tuple[str, ...]
    """Names of its parts, in the order of the native rows; without the family's prefix."""
    rows: tuple[int, ...]
    """Native rows of each part."""
    shape: tuple[int, ...]
    """Native shape of the whole."""
    transposed: bool
    """Whether the file holds the matrix as `[in, out]`."""

    @property
    def stored_shapes(self) -> list[tuple[int, ...]]:
        """Returns the shape that each part has in the file."""
        shapes = [(rows, *self.shape[1:]) for rows in self.rows]
        return [shape[::-1] for shape in shapes] if self.transposed else shapes

    def split(self, array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yields name and stored form of each part, as views of the native array."""
        for name, part in zip(self.names, np.split(array, np.cumsum(self.rows)[:-1]), strict=True):
            yield name, part.T if self.transposed else part

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the native array of the stored parts; a single part stays a view."""
        native = [part.T if self.transposed else part for part in parts]
        return native[0] if len(native) == 1 else np.concatenate(native)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """The words of one family for the native modules."""

    prefix: str
    """Before every name but the head's."""
    block: str
    """Before the names of block `{}`."""
    modules: Mapping[str, tuple[str, ...]]
    """Native module to foreign ones; those of a block without their prefix."""
    transposed: bool = False
    """Whether linear maps inside blocks lie as `[in, out]`."""
    buffers: tuple[str, ...] = ()
    """Endings of stored constants that are no weights (masks, frequencies) and are passed over."""


_GPT2 = _Names(
    prefix="transformer.",
    block="h.{}.",
    modules={
        "embed.tokens": ("wte",),
        "embed.positions": ("wpe",),
        "norm1": ("ln_1",),
        "attn.qkv": ("attn.c_attn",),
        "attn.out": ("attn.c_proj",),
        "norm2": ("ln_2",),
        "mlp.up": ("mlp.c_fc",),
        "mlp.down": ("mlp.c_proj",),
        "final_norm": ("ln_f",),
        "head": ("lm_head",),
    },
    transposed=True,
    buffers=(".attn.bias", ".attn.masked_bias"),
)
_LLAMA = _Names(
    prefix="model.",
    block="layers.{}.",
    modules={
        "embed.tokens": ("embed_tokens",),
        "norm1": ("input_layernorm",),
        "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attn.q_norm": ("self_attn.q_norm",),
        "attn.k_norm": ("self_attn.k_norm",),
        "attn.out": ("self_attn.o_proj",),
        "norm2": ("post_attention_layernorm",),
        "mlp.up": ("mlp.gate_proj", "mlp.up_proj"),
        "mlp.down": ("mlp.down_proj",),
        "final_norm": ("norm",),
        "head": ("lm_head",),
    },
    buffers=(".self_attn.rotary_emb.inv_freq",),
)
_NANOGPT = replace(_GPT2, transposed=False)
_FAMILIES: Mapping[Family, _Names] = {"gpt2": _GPT2, "llama": _LLAMA, "qwen3": _LLAMA, "nanogpt": _NANOGPT}


def places(family: Family, config: ModelConfig) -> dict[str, Place]:
    """Returns where each native tensor lies in a file of the family, by native name.

    GPT-2's files always have biases: where the config has none, their places are listed too, to be written as zeros.
    """
    if family == "nextok":
        return {name: _own_place(name, shape) for name, shape in parameter_shapes(config).items()}
    stored = replace(config, bias=True) if family == "gpt2" else config
    return {name: _place(_FAMILIES[family], config, name, shape) for name, shape in parameter_shapes(stored).items()}


def head_name(family: Family) -> str:
    """Returns the name under which a file of the family holds the head's weight, tied or not."""
    return "head.weight" if family == "nextok" else f"{_FAMILIES[family].modules['head'][0]}.weight"


def embedding_name(family: Family) -> str:
    """Returns the name under which a file of the family holds the token embedding, without prefix."""
    return "embed.tokens.weight" if family == "nextok" else f"{_FAMILIES[family].modules['embed.tokens'][0]}.weight"


def written_name(family: Family, name: str) -> str:
    """Returns the whole name that transformers looks for, from one without prefix."""
    return name if family == "nextok" or name == head_name(family) else _FAMILIES[family].prefix + name


def plain_name(name: str) -> str:
    """Returns a stored name without what compiling, distributing or nesting put around it, however often.

    `_orig_mod.module.transformer.h.0.ln_1.weight` and `h.0._orig_mod.ln_1.weight` are both `h.0.ln_1.weight`.
    """
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    while len(parts) > 1 and parts[0] in _ROOTS:
        del parts[0]
    return ".".join(parts)


def is_buffer(family: Family, name: str) -> bool:
    """Whether a stored name is that of a constant which the family's files carry beside the weights."""
    return family != "nextok" and name.endswith(_FAMILIES[family].buffers)


def _own_place(name: str, shape: tuple[int, ...]) -> Place:
    return Place(names=(name,), rows=(shape[0],), shape=shape, transposed=False)


def _place(names: _Names, config: ModelConfig, name: str, shape: tuple[int, ...]) -> Place:
    module, _, kind = name.rpartition(".")
    prefix = ""
    if module.startswith("blocks."):
        _, layer, module = module.split(".", 2)
        prefix = names.block.format(layer)
    foreign = names.modules[module]
    return Place(
        names=tuple(f"{prefix}{part}.{kind}" for part in foreign),
        rows=_rows(config, module) if len(foreign) > 1 else (shape[0],),
        shape=shape,
        transposed=names.transposed and bool(prefix) and len(shape) == 2,
    )


def _rows(config: ModelConfig, module: str) -> tuple[int, ...]:
    if module == "mlp.up":
        return (config.d_ff, config.d_ff)
    return (config.n_heads * config.d_head, *(config.n_kv_heads * config.d_head,) * 2)
