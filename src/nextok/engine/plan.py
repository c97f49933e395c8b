"""Where every number of a model lies in memory, from its config alone: one arena of tiles, one array of vectors.

The compiled functions know matrices and vectors by records of offsets, so that one compilation serves every model and
every precision. A packed file needs only the two arrays and the config.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nextok.engine.layout import packed_bytes, padded, tiles_across
from nextok.engine.tiles import BF16, F32, INT4, INT8
from nextok.spec import ModelConfig, parameter_shapes

Precision = Literal["fp32", "bf16", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8", "int4")
GELU, GELU_TANH, RELU, RELU2, SWIGLU = range(5)
"""Activations, as the compiled functions know them."""

# The head of an int4 model stays int8: a third of GPT-2's weights, and every error in it is an error in the logits.
_KINDS: Mapping[Precision, tuple[int, int]] = {
    "fp32": (F32, F32),
    "bf16": (BF16, BF16),
    "int8": (INT8, INT8),
    "int4": (INT4, INT8),
}
_MLP = {"gelu": GELU, "gelu_tanh": GELU_TANH, "relu": RELU, "relu2": RELU2, "swiglu": SWIGLU}
_OF_A_LAYER = ("attn.qkv", "attn.out", "mlp.up", "mlp.down")
_ADDING = ("attn.out.weight", "mlp.down.weight")

MATRIX = np.dtype(
    [(name, np.int64) for name in ("kind", "address", "begin", "blocks", "across", "scales", "biases", "adds")]
)
"""A matrix: its format, where its tiles begin (address, and offset in the arena), tiles down and across, where its two
vectors lie, and whether its outputs are added to the residual stream."""
LAYER = np.dtype([(name, np.int64) for name in ("norm1", "norm1_bias", "norm2", "norm2_bias", "q_norm", "k_norm")])
"""Where the vectors of a layer's norms lie."""
SHAPE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "n_layers", "n_heads", "n_kv_heads", "d_model", "d_head", "d_ff", "mlp", "n_slots", "past_kind",
            "head_tiles", "position_tiles", "norms_first", "centres", "has_qk_norm", "has_turns", "has_positions",
            "positions", "bigrams",
        )
    ]
    + [("norm_eps", np.float64), ("softcap", np.float64)]
)  # fmt: skip
"""What the compiled functions know of a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The memory of a packed model."""

    matrices: NDArray[np.void]
    """Records of MATRIX, addresses not filled in: four a layer, the embedding, the head (the same one where tied)."""
    layers: NDArray[np.void]
    """Records of LAYER: one a layer, and one whose first norm is the last of the model."""
    names: tuple[str, ...]
    """Native name of each matrix's weight, in their order, the tied head not named again."""
    vectors: Mapping[str, int]
    """Where each vector lies, by native name; tables of positions and of pairs are, too."""
    widths: Mapping[str, int]
    """Numbers of each vector."""
    ones: int
    """Where as many ones lie as the widest matrix has rows; the same number of zeros lies before them, at 0."""
    arena_bytes: int
    """Bytes of all matrices."""
    vector_numbers: int
    """Numbers of all vectors."""


def plan(config: ModelConfig, precision: Precision) -> Plan:
    """Returns where everything lies."""
    shapes = parameter_shapes(config)
    names = _matrix_names(config)
    widest = max(padded(shapes[name][0]) for name in names)
    vectors, widths, end = {}, {}, 2 * widest
    for name, shape in shapes.items():
        if name not in names:
            vectors[name], widths[name] = end, int(np.prod(shape))
            end += padded(widths[name])
    records = []
    begin = 0
    for name in names:
        rows, columns = shapes[name]
        kind = _kind(name, precision)
        scales = widest
        if kind == INT8:
            scales, end = end, end + padded(rows)
        biases = vectors.get(name.removesuffix("weight") + "bias", 0)
        tiles = tiles_across(rows), tiles_across(columns)
        records.append((kind, 0, begin, *tiles, scales, biases, name.endswith(_ADDING)))
        begin += packed_bytes(kind, rows, columns)
    if config.tied_head:
        records.append(records[-1])
    return Plan(
        matrices=np.array(records, MATRIX),
        layers=np.array([_layer(layer, config, vectors, widest) for layer in range(config.n_layers + 1)], LAYER),
        names=names,
        vectors=vectors,
        widths=widths,
        ones=widest,
        arena_bytes=begin,
        vector_numbers=end,
    )


def shape_record(config: ModelConfig, memory: Plan, *, n_slots: int, past_kind: int) -> NDArray[np.void]:
    """Returns one record of SHAPE."""
    record = np.zeros(1, SHAPE)
    values = {
        "n_layers": config.n_layers,
        "n_heads": config.n_heads,
        "n_kv_heads": config.n_kv_heads,
        "d_model": config.d_model,
        "d_head": config.d_head,
        "d_ff": config.d_ff,
        "mlp": _MLP[config.mlp],
        "n_slots": n_slots,
        "past_kind": past_kind,
        "head_tiles": tiles_across(config.d_head),
        "position_tiles": tiles_across(config.context),
        "norms_first": config.norm_placement == "before",
        "centres": config.norm == "layernorm",
        "has_qk_norm": config.qk_norm,
        "has_turns": config.position == "rope",
        "has_positions": config.position == "learned",
        "positions": memory.vectors.get("embed.positions.weight", 0),
        "bigrams": memory.vectors.get("embed.bigrams.weight", 0),
        "norm_eps": config.norm_eps,
        "softcap": config.logit_softcap,
    }
    for name, value in values.items():
        record[name] = value
    return record


def rotations(config: ModelConfig) -> NDArray[np.float32]:
    """Returns cosines, then sines, of every position's angles `[context, K]`; empty where positions are learned."""
    if config.position != "rope":
        return np.empty((0, config.d_head), np.float32)
    powers = np.arange(0, config.d_head, 2, dtype=np.float32) / np.float32(config.d_head)
    angles = np.arange(config.context, dtype=np.float32)[:, None] * np.float32(config.rope_base) ** -powers
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def _kind(name: str, precision: Precision) -> int:
    inside, outside = _KINDS[precision]
    return inside if name.startswith("blocks.") else outside


def _matrix_names(config: ModelConfig) -> tuple[str, ...]:
    inside = [f"blocks.{layer}.{module}.weight" for layer in range(config.n_layers) for module in _OF_A_LAYER]
    return (*inside, "embed.tokens.weight") if config.tied_head else (*inside, "embed.tokens.weight", "head.weight")


def _layer(layer: int, config: ModelConfig, vectors: Mapping[str, int], ones: int) -> tuple[int, ...]:
    """Returns where the norms of a layer lie; those of the record after the last layer are the final norm's."""
    if layer == config.n_layers:
        modules = ["final_norm", "final_norm"]
    else:
        modules = [f"blocks.{layer}.norm1", f"blocks.{layer}.norm2"]
    places = []
    for module in modules:
        places += [vectors.get(f"{module}.weight", ones), vectors.get(f"{module}.bias", 0)]
    heads = [vectors.get(f"blocks.{layer}.attn.{part}_norm.weight", ones) for part in "qk"]
    return (*places, *heads)
