"""A Hugging Face directory to a `ModelConfig` and native float32 arrays: strict by name and shape, nothing executed.

Everything is checked against the headers before one weight is read, so a wrong directory costs no memory and a model
never starts with weights it did not find. Names are in `names.py`, config.json in `fields.py`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint import RunDirectory, TensorSpec, read_weight_shapes, read_weights
from nextok.errors import CheckpointError
from nextok.interop.fields import read_fields
from nextok.interop.fitting import StoredTensor, by_plain_name, check_fit
from nextok.interop.names import Family, Place, embedding_name, head_name, places
from nextok.interop.typed_json import TypedJson
from nextok.spec import ModelConfig

_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_SHARD = re.compile(r"[\w. -]+\.safetensors")  # a path out of the folder could read any file of the user

_Read = Callable[[StoredTensor], NDArray[Any]]


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
    """Returns the same, with weights one at a time as they are asked for, in the precision of the files at least.

    Raises:
        CheckpointError: as `read_directory`, all of it before the first array.
    """
    family, config = _family_and_config(folder)
    stored = by_plain_name(family, _stored_tensors(folder))
    spare = stored.pop(head_name(family), None) if config.tied_head else None
    if config.n_layers > len(stored):  # before names are made for each of them
        raise CheckpointError(
            f"{RunDirectory(folder).config} says {config.n_layers} layers, but the files hold {len(stored)} tensors."
        )
    wanted = places(family, config)
    check_fit(wanted, stored, folder, "its config.json")
    read = _reader({tensor.file for tensor in stored.values()} | ({spare.file} if spare else set()))
    if spare is not None:
        _check_tied(spare, stored[embedding_name(family)], read)
    if family == "gpt2" and not config.bias and _any_bias(wanted, stored, read):
        config = replace(config, bias=True)  # trained further elsewhere, where GPT-2 always has biases
    return config, _native_arrays(config, wanted, stored, read)


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
    stored = by_plain_name(family, _stored_tensors(folder))
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
    config: ModelConfig, wanted: Mapping[str, Place], stored: Mapping[str, StoredTensor], read: _Read
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, place in wanted.items():
        if config.bias or not name.endswith(".bias"):
            yield name, place.join([read(stored[part]) for part in place.names])


def _stored_tensors(folder: Path) -> list[StoredTensor]:
    """Returns every tensor of the directory's one file, or of its shards."""
    weights, index = RunDirectory(folder).weights, folder / _INDEX
    if weights.is_file():
        return [StoredTensor(name=name, file=weights, spec=spec) for name, spec in read_weight_shapes(weights).items()]
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


def _sharded_tensors(index: Path) -> list[StoredTensor]:
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
        stored.append(StoredTensor(name=name, file=file, spec=shards[shard][name]))
    return stored


def _reader(files: set[Path]) -> _Read:
    """Returns what reads one tensor of the files; each file is opened once, and stays the one it is now."""
    opened = {file: read_weights(file) for file in files}
    return lambda tensor: opened[tensor.file][tensor.name]


def _check_tied(head: StoredTensor, embedding: StoredTensor, read: _Read) -> None:
    """Refuses a head stored beside the embedding it is tied to, if it differs: one of the two must be wrong."""
    if not np.array_equal(read(head), read(embedding)):
        raise CheckpointError(
            f"{head.name} in {head.file} differs from the embedding, to which config.json ties it.",
            "Set tie_word_embeddings to false in config.json if the head is its own.",
        )


def _any_bias(wanted: Mapping[str, Place], stored: Mapping[str, StoredTensor], read: _Read) -> bool:
    names = [part for name, place in wanted.items() if name.endswith(".bias") for part in place.names]
    return any(read(stored[name]).any() for name in names)


def _owned(array: NDArray[Any]) -> NDArray[np.float32]:
    """Returns the array as contiguous float32 memory of its own; copied only where it is not yet."""
    owned = np.ascontiguousarray(array, dtype=np.float32)
    return owned if owned.flags.owndata else owned.copy()
