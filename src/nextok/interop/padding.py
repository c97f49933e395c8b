"""A vocabulary padded for speed, cut to the ids that a tokenizer has."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from nextok.errors import CheckpointError
from nextok.interop.stored import StoredModel
from nextok.tokenizer import check_fits

_ROWS_ARE_IDS = ("embed.tokens.weight", "head.weight")


def cut_padding(model: StoredModel, vocab_size: int) -> StoredModel:
    """Returns the model with its first `vocab_size` ids; their logits stay what they were.

    Training pads 50,257 ids to 50,304 rows, a rounder number; other tools refuse a model with more rows than its
    tokenizer has ids, or draw ids that have no text.

    Args:
        model: Read once, by what comes back.
        vocab_size: Ids to keep; at least 1.

    Raises:
        CheckpointError: if the model has fewer rows than that, or the number is below 1.
        TokenizerError: if the model's own tokenizer has more ids.
    """
    rows = model.config.vocab_size
    if not 1 <= vocab_size <= rows:
        raise CheckpointError(f"A vocabulary of {vocab_size} ids cannot be cut from {rows} embedding rows.")
    if model.tokenizer is not None:
        check_fits(model.tokenizer, vocab_size)
    return replace(model, config=replace(model.config, vocab_size=vocab_size), arrays=_cut(model, vocab_size))


def _cut(model: StoredModel, vocab_size: int) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, array in model.arrays:
        yield name, array[:vocab_size] if name in _ROWS_ARE_IDS else array
        del array
