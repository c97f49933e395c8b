"""From windows to inputs and targets: the one place where the shift by one happens.

A window is context + 1 tokens; `inputs = window[:-1]` and `targets = window[1:]`, so target t is the token after
input t. Nothing above shifts again. A target that is not to be learned is `IGNORED`. Axis letters: B windows,
T positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nextok.corpus.order import SampleOrder
from nextok.corpus.shards import TokenSplit
from nextok.corpus.targets import IGNORED
from nextok.errors import CorpusError

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Windows to learn from or to score."""

    inputs_BT: Ids  # noqa: N815 - axis letters
    """Tokens the model sees, int64."""
    targets_BT: Ids  # noqa: N815 - axis letters
    """The token after each input, int64; `IGNORED` where it is part of a prompt."""
    starts_B: Ids  # noqa: N815 - axis letters
    """Position in the split of each first input, int64."""

    @property
    def n_targets(self) -> int:
        """Targets that count; a window that lies in a prompt may have none."""
        return int((self.targets_BT != IGNORED).sum())


class Batches:
    """Training batches: batch contents depend on the split, the context, the seed and the sample numbers alone.

    Args:
        split: The training tokens.
        context: Inputs in a window.
        seed: Seed of the run.

    Raises:
        CorpusError: if the split is too short for one window.
    """

    def __init__(self, split: TokenSplit, context: int, seed: int) -> None:
        check_length(len(split), context, split.name)
        self.order = SampleOrder(len(split), context, seed)
        self._split, self._context = split, context

    def batch(self, first_sample: int, count: int) -> Batch:
        """Returns samples first_sample..first_sample+count-1 of the endless sequence, [count, context] each."""
        return _batch(self._split, self.order.starts(first_sample, count), self._context)


def evaluation_batches(split: TokenSplit, context: int, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
    """Yields fixed, non-overlapping windows from position 0, so that every token but the first is a target once.

    A last window that is shorter comes alone, as its own batch.

    Args:
        split: The tokens to score, at least 2.
        context: Inputs in a full window.
        batch_size: Most windows in a batch.
        limit: Most windows in all, spread evenly over the split; None scores everything.
    """
    if len(split) < 2:
        raise ValueError(f"{len(split)} tokens hold no target")
    full_windows, rest = divmod(len(split) - 1, context)
    windows = full_windows + (rest > 0)
    count = windows if limit is None else min(limit, windows)
    chosen = np.arange(count, dtype=np.int64) * windows // max(1, count)
    full = chosen[chosen < full_windows]
    for first in range(0, len(full), batch_size):
        yield _batch(split, full[first : first + batch_size] * context, context)
    if len(full) < count:
        yield _batch(split, np.array([full_windows * context]), rest)


def shift(window_BT: Ids) -> tuple[Ids, Ids]:
    """Returns (inputs, targets) of windows [..., T + 1]: views [..., T] in which target t is the token after input t.

    Raises:
        ValueError: if the last axis holds fewer than two tokens.
    """
    if window_BT.ndim == 0 or window_BT.shape[-1] < 2:
        raise ValueError(f"a window needs at least 2 tokens on its last axis, and has shape {window_BT.shape}")
    return window_BT[..., :-1], window_BT[..., 1:]


def check_length(split_tokens: int, context: int, which: str) -> None:
    """Checks that a split holds at least one window.

    Args:
        split_tokens: Tokens found.
        context: Inputs in a window.
        which: Name of the split, for the message.

    Raises:
        CorpusError: if it has fewer than context + 1 tokens, with a context that would fit.
    """
    if split_tokens > context:
        return
    message = f"The {which} split has {split_tokens} tokens; context {context} needs {context + 1} (context + 1)."
    if split_tokens < 2:
        raise CorpusError(message, "Give more text.")
    suggested = 1 << ((split_tokens - 1).bit_length() - 1)  # the largest power of two that fits
    raise CorpusError(message, f"Give more text, or --context {suggested}.")


def _batch(split: TokenSplit, starts_B: Ids, context: int) -> Batch:
    inputs_BT, targets_BT = shift(split.windows(starts_B, context + 1))
    if split.targets is not None:
        counted_BT = split.targets.count_at(starts_B[:, None] + np.arange(1, context + 1))
        targets_BT = np.where(counted_BT, targets_BT, IGNORED)
    return Batch(inputs_BT=inputs_BT, targets_BT=targets_BT, starts_B=starts_B)
