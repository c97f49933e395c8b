"""A model as a directory that transformers loads: config, sampling options, weights, tokenizer, each file whole.

`write_description` is everything but the weights, `write_weights_file` the weights alone, for a run that replaces them
often. A model that no family of transformers has is written under native names, and `Written` says which part is alien.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint import RunDirectory, write_weights
from nextok.config import unknown_name
from nextok.errors import CheckpointError
from nextok.files import write_json
from nextok.interop.fields import family_of, written_fields
from nextok.interop.names import Family, places, written_name
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
    _check_weights(config, weights)
    written = write_description(folder, config, tokenizer, generation)
    write_weights_file(folder, config, weights)
    return written


def write_description(
    folder: Path,
    config: ModelConfig,
    tokenizer: Tokenizer | None = None,
    generation: Mapping[str, object] | None = None,
) -> Written:
    """Writes what `write_directory` writes, without the weights."""
    family, reason = family_of(config)
    run = RunDirectory(folder)
    end_of_text = None if tokenizer is None else tokenizer.end_of_text
    options = _generation(generation or {}, end_of_text)
    if tokenizer is not None:  # a padded embedding may have more rows than the tokenizer has ids
        check_fits(tokenizer, config.vocab_size)
        tokenizer.save(run.tokenizer)
        write_json(run.tokenizer_config, tokenizer_config(tokenizer, config.context))
    write_json(run.generation_config, options)
    write_json(run.config, written_fields(config, family, end_of_text))
    return Written(family=family, reason=reason)


def write_weights_file(folder: Path, config: ModelConfig, weights: Mapping[str, NDArray[Any]]) -> None:
    """Writes `model.safetensors` in float32, in the words of the family that `write_description` chooses."""
    _check_weights(config, weights)
    family, _ = family_of(config)
    write_weights(RunDirectory(folder).weights, dict(_family_arrays(family, config, weights)), {"format": "pt"})


def _family_arrays(
    family: Family, config: ModelConfig, weights: Mapping[str, NDArray[Any]]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yields every tensor of the file by its whole name, as views of the weights where they are float32."""
    seen = set()
    for name, place in places(family, config).items():
        array = weights[name] if name in weights else np.zeros(place.shape, np.float32)
        array = np.asarray(array, dtype=np.float32)
        if array.ctypes.data in seen:  # one array under two names would be stored once, and the other one lost
            array = array.copy()
        seen.add(array.ctypes.data)
        for part_name, part in place.split(array):
            yield written_name(family, part_name), part


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
