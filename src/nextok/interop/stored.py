"""What a reader of a foreign format may be told, and what it returns: config, a stream of weights, a tokenizer."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

Gelu = Literal["gelu", "gelu_tanh"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hints:
    """What a checkpoint of nanoGPT or minGPT may not say of itself."""

    n_heads: int | None = None
    """Attention heads; None: as the file says."""
    mlp: Gelu | None = None
    """Activation: gelu for nanoGPT since June 2023, gelu_tanh before and for minGPT; None: as the file tells."""
    meta: Path | None = None
    """nanoGPT's meta.pkl with the characters; None: the one beside the file, if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """A model that lies in a file or a folder, checked whole, its weights not read yet."""

    config: ModelConfig
    """What it is."""
    arrays: Iterator[tuple[str, NDArray[Any]]]
    """Native name and array of each weight, in the order of `nextok.spec.parameter_shapes`, one at a time.

    Float32 or float16, possibly a view of the file. To be read once.
    """
    tokenizer: Tokenizer | None = None
    """The tokenizer stored with it; None where there is none."""
    note: str = ""
    """Why there is no tokenizer, in a sentence; empty where there is one, or where none is to be expected."""
