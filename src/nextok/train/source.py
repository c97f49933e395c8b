"""The model that a run starts from: its options, its tokenizer, its weights, and the fingerprint that run.json keeps.

Every weight comes from the source; nothing is drawn. What the source is cannot be changed, except that dropout is the
run's own and the context may be shorter.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nextok import config as plain
from nextok.checkpoint import read_weights, write_weights
from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.files import sha256_of
from nextok.interop import StoredModel, open_model
from nextok.model import GPT, filled, weight_arrays
from nextok.spec import Architecture, ModelConfig, read_recipe
from nextok.tokenizer import TextRules, Tokenizer, build_tokenizer, parse_choice

if TYPE_CHECKING:
    from nextok.train.config import RunOptions

BASE_NAME = "base.safetensors"
"""In the run directory: what adapters are added to."""

_OWN_OF_THE_RUN = ("dropout", "init")
_POSITIONS = "embed.positions.weight"

# A model that has learned is moved with care: a tenth of the rate that first weights bear. Adapters begin at zero and
# bear about ten times as much ("LoRA Without Regret", Schulman et al. 2025), which is the whole of it.
_RECIPE = "classic"
_LR_FACTOR = 0.1
_WARMUP_STEPS = 20  # the moments alone have to settle


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A model to start from, opened and checked, its weights not read yet."""

    config: ModelConfig
    """The model of the run: the source's, with the run's dropout and context."""
    tokenizer: Tokenizer
    """The source's, or where it has none the one that was named."""
    stored: StoredModel
    """What lies there."""


def with_source(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a run with what follows from the model at `init_from` under what they do not say.

    Raises:
        ConfigError: if a preset is named too.
        CheckpointError: if there is no model, or it cannot be read.
    """
    path = Path(str(values["init_from"]))
    if "preset" in values:
        raise ConfigError(
            f"preset = {values['preset']!r} and init_from = {str(path)!r} both say what the model is.", "Leave one out."
        )
    config = open_model(path).config
    own = {field.name: getattr(config, field.name) for field in fields(Architecture)}
    train = {} if "recipe" in values else _milder(read_recipe(_RECIPE)["train"], adapters=bool(values.get("lora")))
    under = {"recipe": _RECIPE, "tokenizer": str(path), "model": own, "train": train}
    return plain.merge(under, values)


def _milder(train: Mapping[str, Any], *, adapters: bool) -> dict[str, Any]:
    return {"lr": train["lr"] * (1.0 if adapters else _LR_FACTOR), "warmup_steps": _WARMUP_STEPS}


def open_source(options: "RunOptions", cache: Path) -> Source:
    """Returns the model that `options.init_from` names, once nothing in the options contradicts it.

    Raises:
        ConfigError: for a part of the model that is not the source's, or a tokenizer beside its own.
        TokenizerError: if it has no tokenizer and none is named, or one that would be made anew from the text.
        CheckpointError: if there is no model, or it cannot be read.
    """
    assert options.init_from is not None, "only a run with a source has one"
    stored = open_model(options.init_from)
    config = ModelConfig.of(options.model, stored.config.vocab_size)
    for field in fields(Architecture):
        name, value, own = field.name, getattr(config, field.name), getattr(stored.config, field.name)
        shorter = name == "context" and value < own
        if value != own and not shorter and name not in _OWN_OF_THE_RUN:
            hint = "It can be shorter, not longer." if name == "context" else "Leave it out: the model says what it is."
            raise ConfigError(f"{name} = {value!r} contradicts {options.init_from}, where it is {own!r}.", hint)
    return Source(config=config, tokenizer=_tokenizer(options, stored, cache), stored=stored)


def take_weights(source: Source) -> tuple[GPT, str]:
    """Returns the model with the weights of the source, and the SHA-256 of those, names and float32 bytes."""
    digest = hashlib.sha256()
    return filled(source.config, _hashed(source, digest)), digest.hexdigest()


def write_base(folder: Path, model: GPT) -> str:
    """Keeps the frozen model of a run whose checkpoints hold adapters alone; returns the SHA-256 of the file.

    Raises:
        DiskError: if it cannot be written.
    """
    write_weights(folder / BASE_NAME, weight_arrays(model))
    return sha256_of(folder / BASE_NAME)


def read_base(folder: Path, config: ModelConfig, sha256: str) -> GPT:
    """Returns the frozen model that `write_base` kept.

    Raises:
        CheckpointError: if it is missing, or no longer the file that was written.
    """
    path = folder / BASE_NAME
    arrays = read_weights(path)
    if sha256_of(path) != sha256:
        raise CheckpointError(f"{path} is not what this run was started with: adapters fit no other model.")
    return filled(config, arrays.items())


def _hashed(source: Source, digest: "hashlib._Hash") -> Iterator[tuple[str, NDArray[Any]]]:
    for name, array in source.stored.arrays:
        digest.update(name.encode("utf-8"))
        digest.update(np.ascontiguousarray(array, dtype=np.float32).data)
        yield name, array[: source.config.context] if name == _POSITIONS else array


def _tokenizer(options: "RunOptions", stored: StoredModel, cache: Path) -> Tokenizer:
    named = None if options.tokenizer == str(options.init_from) else options.tokenizer
    if stored.tokenizer is not None:
        if named is not None:
            raise ConfigError(
                f"tokenizer = {named!r} contradicts {options.init_from}, which has its own.", "Leave it out."
            )
        return stored.tokenizer
    hint = "Name the one it was trained with, byte, gpt2 or the path of its tokenizer.json, with --tokenizer."
    if named is None:
        raise TokenizerError(stored.note or f"{options.init_from} has no tokenizer.", hint)
    choice = parse_choice(named)
    if choice.kind in ("char", "bpe"):
        raise TokenizerError(f"tokenizer = {named!r} would give tokens other numbers than the model has learned.", hint)
    rules = TextRules(newlines=options.corpus.newlines, normalization=options.corpus.normalization)
    return build_tokenizer(choice, tuple, end_of_text=True, rules=rules, cache=cache)
