"""A model as a directory that transformers loads: config, sampling options, weights, tokenizer, each file whole.

`write_description` is everything but the weights, `write_weights_file` the weights alone, for a run that replaces them
often. Arrays are written one by one as they come, so that a stored model passes through without ever being held whole.
A model that no family of transformers has is written under native names, and `Written` says which part is alien.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint import RunDirectory, TensorSpec, stream_weights
from nextok.config import unknown_name
from nextok.errors import CheckpointError
from nextok.files import write_json
from nextok.interop.fields import family_of, written_fields
from nextok.interop.names import Family, places, written_name
from nextok.interop.stored import StoredModel
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import Tokenizer, check_fits, tokenizer_config

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens", "do_sample")


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """How a model was written."""

    family: Family
    """The family whose words were used; `nextok` where only nextok reads the directory."""
    reason: str
    """Why no family of transformers has the model; empty if one has."""


def write_directory(
    folder: Path,
    config: ModelConfig,
    weights: Mapping[str, NDArray[Any]],
    tokenizer: Tokenizer | None = None,
    generation: Mapping[str, object] | None = None,
) -> Written:
    """Writes the model into the folder, which is made if needed; other files there stay.

    Args:
        folder: A run directory or any other.
        config: The model.
        weights: All of `nextok.spec.parameter_shapes`, under their native names.
        tokenizer: Left out where there is none.
        generation: Sampling options by transformers' names, such as temperature and top_k.

    Raises:
        CheckpointError: if a weight is missing, unexpected, or of another shape.
        TokenizerError: if the tokenizer has more tokens than the model.
        ConfigError: for a sampling option that transformers does not know.
        DiskError: if a file cannot be written.
    """
    return write_stored(
        folder, StoredModel(config=config, arrays=in_order(config, weights), tokenizer=tokenizer), generation
    )


def write_stored(folder: Path, model: StoredModel, generation: Mapping[str, object] | None = None) -> Written:
    """Writes what `write_directory` writes, from weights that are read while they are written.

    The most memory taken is that of the largest weight, not of the model. Where reading fails on the way, the folder
    holds no new file.

    Raises:
        CheckpointError: if the weights cannot be read.
        TokenizerError: if the tokenizer has more tokens than the model.
        ConfigError: for a sampling option that transformers does not know.
        DiskError: if a file cannot be written.
    """
    _description(model.config, model.tokenizer, generation)  # refused before the long part, not after it
    _stream_weights(folder, model.config, model.arrays)
    return write_description(folder, model.config, model.tokenizer, generation)


def write_description(
    folder: Path,
    config: ModelConfig,
    tokenizer: Tokenizer | None = None,
    generation: Mapping[str, object] | None = None,
) -> Written:
    """Writes what `write_directory` writes, without the weights."""
    written, fields, options = _description(config, tokenizer, generation)
    run = RunDirectory(folder)
    if tokenizer is not None:
        tokenizer.save(run.tokenizer)
        write_json(run.tokenizer_config, tokenizer_config(tokenizer, config.context))
    write_json(run.generation_config, options)
    write_json(run.config, fields)
    return written


def write_weights_file(folder: Path, config: ModelConfig, weights: Mapping[str, NDArray[Any]]) -> None:
    """Writes `model.safetensors` in float32, in the words of the family that `write_description` chooses."""
    _stream_weights(folder, config, in_order(config, weights))


def _description(
    config: ModelConfig, tokenizer: Tokenizer | None, generation: Mapping[str, object] | None
) -> tuple[Written, dict[str, Any], dict[str, object]]:
    """Returns how the model is written, and the contents of config.json and generation_config.json."""
    if tokenizer is not None:  # a padded embedding may have more rows than the tokenizer has ids
        check_fits(tokenizer, config.vocab_size)
    family, reason = family_of(config)
    end_of_text = None if tokenizer is None else tokenizer.end_of_text
    options = _generation(generation or {}, end_of_text)
    return Written(family=family, reason=reason), written_fields(config, family, end_of_text), options


def _stream_weights(folder: Path, config: ModelConfig, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
    family, _ = family_of(config)
    specs = {
        written_name(family, part): TensorSpec(shape, "F32")
        for place in places(family, config).values()
        for part, shape in zip(place.names, place.stored_shapes, strict=True)
    }
    stream_weights(RunDirectory(folder).weights, specs, _family_arrays(family, config, iter(arrays)))


def _family_arrays(
    family: Family, config: ModelConfig, arrays: Iterator[tuple[str, NDArray[Any]]]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields every tensor of the file by its whole name, as views of the native arrays, which come in their order."""
    own = parameter_shapes(config)
    for name, place in places(family, config).items():
        given, array = next(arrays) if name in own else (name, np.zeros(place.shape, np.float32))
        assert given == name, f"{given} came where {name} was due"
        for part_name, part in place.split(array):
            yield written_name(family, part_name), part
            del part
        del array


def in_order(config: ModelConfig, weights: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Returns the weights in the order of `parameter_shapes`, once they are known to be those of the model."""
    _check_weights(config, weights)
    return ((name, weights[name]) for name in parameter_shapes(config))


def _check_weights(config: ModelConfig, weights: Mapping[str, NDArray[Any]]) -> None:
    shapes = parameter_shapes(config)
    if wrong := sorted(set(shapes) ^ set(weights)):
        what = "missing" if wrong[0] in shapes else "unexpected"
        raise CheckpointError(f"The weights do not fit the model: {wrong[0]} is {what} ({len(wrong)} such in all).")
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise CheckpointError(f"The weight {name} has shape {list(weights[name].shape)}, not {list(shape)}.")


def _generation(options: Mapping[str, object], end_of_text: int | None) -> dict[str, object]:
    """Returns generation_config.json: without `do_sample`, peers would be greedy; without top_k they would keep 50."""
    for name in options:
        if name not in _SAMPLING:
            raise unknown_name(name, _SAMPLING, "the sampling options of transformers")
    ids = {"bos_token_id": end_of_text, "eos_token_id": end_of_text}
    greedy = options.get("temperature") == 0 or options.get("do_sample") is False
    if greedy:  # the other options belong to sampling, and transformers warns of them here
        kept = {name: options[name] for name in ("repetition_penalty", "max_new_tokens") if name in options}
        return {**ids, "do_sample": False, **kept}
    return {**ids, "do_sample": True, "top_k": 0, **options}
