"""What lies at a path, told by its content and never by its name, and opened by the reader of its format."""

import shlex
from pathlib import Path
from typing import Literal

from nextok.checkpoint import RunDirectory
from nextok.errors import CheckpointError, ConfigError
from nextok.files import read_json
from nextok.interop.gguf_in import gguf_parameters, read_gguf, read_gguf_config
from nextok.interop.hf_in import read_config, stored_parameters, stream_directory
from nextok.interop.stored import Hints, StoredModel
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, check_fits

Kind = Literal["directory", "gguf", "torch"]

_WHAT_IS_READ = "Give a run directory, a directory of transformers or a GGUF file."
_PICKLE_PROTOCOLS = range(1, 6)


def kind_of(path: Path) -> Kind:
    """Returns the kind of model at the path: a directory, a GGUF file, or a checkpoint of torch.save.

    Raises:
        CheckpointError: if there is nothing, or a file of another kind.
    """
    if path.is_dir():
        return "directory"
    try:
        with path.open("rb") as stream:
            start = stream.read(9)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise CheckpointError(
            f"There is no model at {path}." if missing else f"Cannot read {path}: {error.strerror or error}.",
            _WHAT_IS_READ,
        ) from error
    if start.startswith(b"GGUF"):
        return "gguf"
    if start[8:9] == b"{":  # before the pickle: the length of a safetensors header can start like one
        raise CheckpointError(f"{path} holds weights alone.", "Give the folder that has config.json beside them.")
    if start.startswith(b"PK\x03\x04") or (start[:1] == b"\x80" and start[1:2] and start[1] in _PICKLE_PROTOCOLS):
        return "torch"
    raise CheckpointError(f"{path} is no model that nextok can read.", _WHAT_IS_READ)


def open_model(path: Path, hints: Hints | None = None) -> StoredModel:
    """Returns the model at a path: everything about it is checked, and no weight is read yet.

    Args:
        path: A run directory, a directory of transformers, a GGUF file, or a checkpoint of nanoGPT or minGPT.
        hints: For a checkpoint alone.

    Raises:
        CheckpointError: if there is no model, or it cannot be read; by name, with the reason.
        ConfigError: for hints about a file that needs none.
        TokenizerError: if the tokenizer beside it cannot be read, or has more tokens than the model.
    """
    kind, hints = kind_of(path), hints or Hints()
    if kind == "torch":
        from nextok.interop.torch_checkpoint import read_torch_checkpoint  # noqa: PLC0415 - torch, for such a file alone

        return read_torch_checkpoint(path, n_heads=hints.n_heads, mlp=hints.mlp, meta=hints.meta)
    if hints != Hints():
        raise ConfigError(
            f"{path} says itself what it is.", "Leave n_heads, mlp and meta to checkpoints of nanoGPT and minGPT."
        )
    stored = read_gguf(path) if kind == "gguf" else _open_directory(path)
    if stored.tokenizer is not None:
        check_fits(stored.tokenizer, stored.config.vocab_size)
    return stored


def open_runnable(path: Path) -> StoredModel:
    """Returns what `open_model` does, but refuses a checkpoint that has to be imported first.

    Raises:
        CheckpointError: for a checkpoint of torch.save, and as `open_model`.
    """
    _runnable_kind(path)
    return open_model(path)


def summarise(path: Path) -> tuple[ModelConfig, int]:
    """Returns the model at a path, and how many trained numbers its files hold: from headers, no weight is read.

    Raises:
        CheckpointError: as `open_runnable`.
    """
    if _runnable_kind(path) == "gguf":
        return read_gguf_config(path), gguf_parameters(path)
    return read_config(path), stored_parameters(path)


def _runnable_kind(path: Path) -> Kind:
    kind = kind_of(path)
    if kind == "torch":
        raise CheckpointError(
            f"{path} is a checkpoint of torch.save, which is imported before it is used.",
            f"nextok import {shlex.quote(str(path))} --out runs/NAME",
        )
    return kind


def _open_directory(folder: Path) -> StoredModel:
    config, arrays = stream_directory(folder)
    vocabulary = RunDirectory(folder).tokenizer
    tokenizer = Tokenizer.load(vocabulary, end=_named_end(folder)) if vocabulary.is_file() else None
    return StoredModel(config=config, arrays=arrays, tokenizer=tokenizer)


def _named_end(folder: Path) -> str | None:
    """Returns the token that tokenizer_config.json says texts end with: `<|im_end|>` of a chat model, for one."""
    path = RunDirectory(folder).tokenizer_config
    if not path.is_file():
        return None
    fields = read_json(path)
    end = fields.get("eos_token") if isinstance(fields, dict) else None
    if isinstance(end, dict):  # as older versions of transformers wrote it
        end = end.get("content")
    return end if isinstance(end, str) else None
