"""A Hugging Face directory to a `ModelConfig` and native float32 arrays: strict by name and shape, nothing executed.

Everything is checked against the headers before one weight is read, so a wrong directory costs no memory and a model
never starts with weights it did not find. Names are in `names.py`, config.json in `fields.py`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint import RunDirectory, TensorSpec, read_weight_shapes, read_weights
from nextok.errors import CheckpointError
from nextok.interop.fields import read_fields
from nextok.interop.names import Family, Place, embedding_name, head_name, is_buffer, places, plain_name
from nextok.interop.typed_json import TypedJson
from nextok.spec import ModelConfig

_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_SHARD = re.compile(r"[\w. -]+\.safetensors")  # a path out of the folder could read any file of the user
_DTYPES = ("F32", "F16", "BF16")
_FEW = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A tensor in a file, not read yet."""

    name: str
    """Its whole name there."""
    file: Path
    """The file."""
    spec: TensorSpec
    """Its shape and dtype there."""


def read_directory(folder: Path) -> tuple[ModelConfig, dict[str, NDArray[np.float32]]]:
    """Returns the model that a directory of transformers (or a run directory) describes, and its weights.

    Weights have the names and shapes of `nextok.spec.parameter_shapes`, in its order; float16 and bfloat16 are
    widened. The arrays are the caller's own: later changes to the files do not reach them.

    Raises:
        CheckpointError: if a file is missing, cut short or a pickle; if a tensor is missing, unexpected or of another
            shape, by name; if the config asks for a computation nextok does not have.
    """
    config, arrays = stream_directory(folder)
    return config, {name: _owned(array) for name, array in arrays}


def stream_directory(folder: Path) -> tuple[ModelConfig, Iterator[tuple[str, NDArray[Any]]]]:
    """Returns the same, with weights one at a time as they are asked for: views of the files where that is enough.

    Raises:
        CheckpointError: as `read_directory`, all of it before the first array.
    """
    family, config = _family_and_config(folder)
    stored = _stored_by_plain_name(family, _stored_tensors(folder))
    spare = stored.pop(head_name(family), None) if config.tied_head else None
    if config.n_layers > len(stored):  # before names are made for each of them
        raise CheckpointError(
            f"{RunDirectory(folder).config} says {config.n_layers} layers, but the files hold {len(stored)} tensors."
        )
    wanted = places(family, config)
    _check(wanted, stored, folder)
    tensors = _mapped(stored if spare is None else {**stored, head_name(family): spare})
    if spare is not None:
        _check_tied(spare, tensors.pop(head_name(family)), tensors[embedding_name(family)])
    if family == "gpt2" and not config.bias and _any_bias(wanted, tensors):
        config = replace(config, bias=True)  # trained further elsewhere, where GPT-2 always has biases
    return config, _native_arrays(config, wanted, tensors)


def read_config(folder: Path) -> ModelConfig:
    """Returns the model that a directory describes, from its config.json alone.

    Raises:
        CheckpointError: if there is no config.json, or it asks for a computation nextok does not have.
    """
    return _family_and_config(folder)[1]


def stored_parameters(folder: Path) -> int:
    """Returns how many trained numbers the directory's tensors hold: no mask buffers, a tied head once.

    Raises:
        CheckpointError: if a file is missing or cut short.
    """
    family, config = _family_and_config(folder)
    stored = _stored_by_plain_name(family, _stored_tensors(folder))
    if config.tied_head:
        stored.pop(head_name(family), None)
    return sum(math.prod(tensor.spec.shape) for tensor in stored.values())


def _family_and_config(folder: Path) -> tuple[Family, ModelConfig]:
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}.", "Give a run directory or a Hugging Face directory.")
    path = RunDirectory(folder).config
    if not path.is_file():
        raise CheckpointError(f"{folder} has no config.json, so it is no model.", "Give the folder that holds one.")
    return read_fields(path)


def _native_arrays(
    config: ModelConfig, wanted: Mapping[str, Place], tensors: dict[str, NDArray[Any]]
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, place in wanted.items():
        parts = [tensors.pop(part) for part in place.names]  # popped: what has been used gives its memory back
        if config.bias or not name.endswith(".bias"):
            yield name, place.join(parts)


def _stored_tensors(folder: Path) -> list[_Stored]:
    """Returns every tensor of the directory's one file, or of its shards."""
    weights, index = RunDirectory(folder).weights, folder / _INDEX
    if weights.is_file():
        return [_Stored(name=name, file=weights, spec=spec) for name, spec in read_weight_shapes(weights).items()]
    if index.is_file():
        return _sharded_tensors(index)
    for name in _PICKLES:
        if (folder / name).is_file():
            raise CheckpointError(
                f"{folder} has its weights in {name}, a pickle, which can run any code when it is opened.",
                "If you trust it, convert it once: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(other) "
                "in transformers writes model.safetensors.",
            )
    raise CheckpointError(f"{folder} has no {weights.name}.", "A run has one after its first evaluation.")


def _sharded_tensors(index: Path) -> list[_Stored]:
    shards: dict[str, dict[str, TensorSpec]] = {}
    stored = []
    for name, shard in TypedJson.read(index).table("weight_map").items():
        if not isinstance(shard, str) or not _SHARD.fullmatch(shard):
            raise CheckpointError(f"{index} names the shard {shard!r}, which is not a file name in its folder.")
        file = index.parent / shard
        if shard not in shards:
            shards[shard] = read_weight_shapes(file)
        if name not in shards[shard]:
            raise CheckpointError(f"{index} says that {shard} holds {name!r}, which it does not.", "Download it again.")
        stored.append(_Stored(name=name, file=file, spec=shards[shard][name]))
    return stored


def _stored_by_plain_name(family: Family, tensors: Iterable[_Stored]) -> dict[str, _Stored]:
    stored: dict[str, _Stored] = {}
    for tensor in tensors:
        name = plain_name(tensor.name)
        if is_buffer(family, name):
            continue
        if name in stored:
            raise CheckpointError(
                f"{tensor.file.parent} holds {name!r} twice, as {stored[name].name!r} and as {tensor.name!r}."
            )
        stored[name] = tensor
    return stored


def _check_tied(head: _Stored, head_VD: NDArray[Any], embedding_VD: NDArray[Any]) -> None:
    """Refuses a head stored beside the embedding it is tied to, if it differs: one of the two must be wrong."""
    if not np.array_equal(head_VD, embedding_VD):
        raise CheckpointError(
            f"{head.name} in {head.file} differs from the embedding, to which config.json ties it.",
            "Set tie_word_embeddings to false in config.json if the head is its own.",
        )


def _check(wanted: Mapping[str, Place], stored: Mapping[str, _Stored], folder: Path) -> None:
    shapes = {
        name: shape for place in wanted.values() for name, shape in zip(place.names, place.stored_shapes, strict=True)
    }
    missing = [name for name in shapes if name not in stored]
    unexpected = [tensor.name for name, tensor in stored.items() if name not in shapes]
    if missing or unexpected:
        found = [_listed("lacks", missing), _listed("holds unexpected", unexpected)]
        raise CheckpointError(
            f"The weights in {folder} do not fit its config.json: it {' and '.join(each for each in found if each)}.",
            "Nothing was loaded; config.json and the weights have to be of one model.",
        )
    for name, shape in shapes.items():
        spec = stored[name].spec
        if spec.shape != shape:
            raise CheckpointError(
                f"{stored[name].name} in {folder} has shape {list(spec.shape)}; its config.json asks for {list(shape)}."
            )
        if spec.dtype not in _DTYPES:
            raise CheckpointError(
                f"{stored[name].name} in {folder} has dtype {spec.dtype}; known: {', '.join(_DTYPES)}.",
                "Save the model in float32 with the tool that made it.",
            )


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"{what} {', '.join(names[:_FEW])}{more}"


def _mapped(stored: Mapping[str, _Stored]) -> dict[str, NDArray[Any]]:
    """Returns the tensors by plain name; float32 and float16 are read from disk only when touched."""
    files = {file: read_weights(file) for file in {tensor.file for tensor in stored.values()}}
    return {name: files[tensor.file][tensor.name] for name, tensor in stored.items()}


def _any_bias(wanted: Mapping[str, Place], tensors: Mapping[str, NDArray[Any]]) -> bool:
    names = [part for name, place in wanted.items() if name.endswith(".bias") for part in place.names]
    return any(tensors[name].any() for name in names)


def _owned(array: NDArray[Any]) -> NDArray[np.float32]:
    """Returns the array as contiguous float32 memory of its own; copied only where it is not yet."""
    owned = np.ascontiguousarray(array, dtype=np.float32)
    return owned if owned.flags.owndata else owned.copy()
