"""A GGUF file to a `StoredModel`: strict by name and shape, weights read and turned into floats one at a time.

The container is in `gguf_file.py`, names in `gguf_names.py`, the config in `gguf_fields.py`, the tokenizer in
`gguf_tokenizer_in.py`.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nextok.checkpoint import TensorSpec
from nextok.errors import CheckpointError
from nextok.interop.fitting import StoredTensor, check_fit
from nextok.interop.gguf_fields import read_gguf_fields
from nextok.interop.gguf_file import GgufFile, import_gguf
from nextok.interop.gguf_names import HEAD, gguf_places, paired_heads, to_halves
from nextok.interop.gguf_tokenizer_in import read_gguf_tokenizer
from nextok.interop.names import Family, Place
from nextok.interop.stored import StoredModel
from nextok.spec import ModelConfig

_FLOATS = ("F32", "F16", "BF16")


def read_gguf(path: Path) -> StoredModel:
    """Returns the model of a GGUF file: GPT-2, Llama or Qwen3, with weights of any precision it knows, as floats.

    A head that is stored with the bytes of the embedding is tied to it, as one that is not stored.

    Raises:
        CheckpointError: if the file is missing, cut short or broken; if a tensor is missing, unexpected or of another
            shape, by name; if it asks for a computation nextok does not have.
        MissingExtraError: if weights are quantised and the package gguf is not installed.
    """
    file = GgufFile(path)
    family, config, wanted = _checked(file)
    if any(tensor.encoding.name not in _FLOATS for tensor in file.tensors.values()):
        import_gguf()  # said now, not at the first such weight
    tokenizer, note = read_gguf_tokenizer(file, config.vocab_size)
    arrays = _native_arrays(file, family, config, wanted)
    return StoredModel(config=config, arrays=arrays, tokenizer=tokenizer, note=note)


def read_gguf_config(path: Path) -> ModelConfig:
    """Returns the model that a GGUF file describes, from its header; its tensors are known to fit.

    Raises:
        CheckpointError: as `read_gguf`.
    """
    return _checked(GgufFile(path))[1]


def gguf_parameters(path: Path) -> int:
    """Returns how many trained numbers a GGUF file holds, a tied head once.

    Raises:
        CheckpointError: as `read_gguf`.
    """
    file = GgufFile(path)
    _, _, wanted = _checked(file)
    return sum(math.prod(place.shape) for place in wanted.values())


def _checked(file: GgufFile) -> tuple[Family, ModelConfig, Mapping[str, Place]]:
    family, config = read_gguf_fields(file)
    if config.n_layers > len(file.tensors):  # before names are made for each of them
        raise CheckpointError(f"{file.path} says {config.n_layers} layers, but holds {len(file.tensors)} tensors.")
    wanted = gguf_places(family, config)
    stored = {  # every encoding is read as floats, and the header knows no others
        name: StoredTensor(name=name, file=file.path, spec=TensorSpec(tensor.shape, "F32"))
        for name, tensor in file.tensors.items()
        if not (name == HEAD and config.tied_head)
    }
    check_fit(wanted, stored, file.path, "its metadata")
    return family, config, wanted


def _native_arrays(
    file: GgufFile, family: Family, config: ModelConfig, wanted: Mapping[str, Place]
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, place in wanted.items():
        yield name, place.join([_part(file, part, paired_heads(family, config, part)) for part in place.names])


def _part(file: GgufFile, name: str, n_heads: int) -> NDArray[Any]:
    part = file.read(name)
    return to_halves(part, n_heads) if n_heads else part
