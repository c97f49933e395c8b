"""Packed models on disk: one safetensors file of two tensors, mapped into memory instead of read.

Packing a model of 124M parameters to int4 takes seconds, mapping its file none; processes that run the same model share
its memory. The file says which weights it was packed from, so that one left over from older weights is never used.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nextok import config as options
from nextok.checkpoint import map_weights, write_weights
from nextok.engine.packed import PackedModel
from nextok.engine.plan import PRECISIONS, Precision, plan
from nextok.errors import CheckpointError
from nextok.files import from_json, to_json
from nextok.spec import ModelConfig

_LAYOUT = "nextok tiles 1"
"""Changes whenever tiles or the order of vectors do."""


def write_packed(path: Path, packed: PackedModel, source: Mapping[str, object]) -> None:
    """Writes a packed model, atomically.

    Args:
        path: The file.
        packed: The model.
        source: What tells the weights it was packed from, of plain values.

    Raises:
        DiskError: if it cannot be written.
    """
    metadata = {
        "format": _LAYOUT,
        "precision": packed.precision,
        "config": to_json(asdict(packed.config)),
        "source": to_json(dict(source)),
    }
    write_weights(path, {"arena": packed.arena, "vectors": packed.vectors}, metadata)


def open_packed(path: Path, source: Mapping[str, object]) -> PackedModel | None:
    """Returns the packed model in a file, mapped; None if there is none, or it was packed from other weights.

    Raises:
        CheckpointError: if the file is cut short or contradicts itself.
    """
    if not path.is_file():
        return None
    arrays, metadata = map_weights(path)
    if metadata.get("format") != _LAYOUT or metadata.get("source") != to_json(dict(source)):
        return None
    config, precision = _described(path, metadata)
    memory = plan(config, precision)
    arena, vectors = arrays.get("arena"), arrays.get("vectors")
    if arena is None or vectors is None:
        raise CheckpointError(f"{path} lacks a tensor of a packed model.", "Pack it again with nextok quantize.")
    wanted = ((memory.arena_bytes,), np.uint8, (memory.vector_numbers,), np.float32)
    if (arena.shape, arena.dtype, vectors.shape, vectors.dtype) != wanted or not vectors.flags.aligned:
        raise CheckpointError(f"{path} is not laid out as its config asks for.", "Pack it again with nextok quantize.")
    return PackedModel(config=config, precision=precision, plan=memory, arena=arena, vectors=vectors)


def _described(path: Path, metadata: Mapping[str, str]) -> tuple[ModelConfig, Precision]:
    precision = next((each for each in PRECISIONS if each == metadata.get("precision")), None)
    if precision is None:
        raise CheckpointError(f"{path} has the unknown precision {metadata.get('precision')!r}.")
    return options.from_mapping(ModelConfig, from_json(metadata.get("config", "{}")), str(path)), precision
