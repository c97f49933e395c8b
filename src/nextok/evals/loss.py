"""The loss over a whole split: every target once, on fixed windows, whatever the training does.

In nats per token, and in bits per byte, which compares models whatever their tokenizer. Where the split has prompts,
both are those of the completions alone.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from nextok.corpus import Batch, TokenSplit, evaluation_batches
from nextok.model import GPT, IGNORED, next_token_loss

_PIECES = 50  # enough for an interval, and each far longer than what makes neighbouring tokens alike
_LEAST_PIECE = 64  # tokens
_BATCH_TOKENS = 8192  # larger gains nothing on two cores
_BATCH_LOGITS = 1 << 26  # 256 MiB in float32, and as much again for their log-softmax


@dataclass(frozen=True, kw_only=True, slots=True)
class LossReport:
    """The loss of a model over a split."""

    nats_per_token: float
    bits_per_byte: float
    """Loss of all tokens, in bits, over the bytes of the text they stand for."""
    tokens: int
    """Targets that were scored."""
    positions: int
    """Tokens that were read, prompts among them: what the time goes with."""

    @property
    def perplexity(self) -> float:
        """Returns e to the loss: the number of equally likely tokens that would be as surprising."""
        return math.exp(self.nats_per_token)


def evaluate_loss(model: GPT, split: TokenSplit, *, limit_tokens: int | None = None) -> LossReport:
    """Returns the mean loss over non-overlapping windows of the model's context, the last one shorter.

    Each window starts with nothing before it, as nanoGPT's do. The model comes back in the mode it was in.

    Args:
        model: Any device.
        split: At least two tokens.
        limit_tokens: Read only about this many tokens, spread over the split; for estimates of time. Where none of
            them counts, the loss is 0.
    """
    return loss_report(split, score_batches(model, split, limit_tokens=limit_tokens))


@dataclass(frozen=True, slots=True)
class Score:
    """What a batch of windows cost."""

    nats: float
    """Summed over its targets."""
    tokens: int
    """Targets that count."""
    positions: int
    """All positions that were read."""


def score_batches(
    model: GPT, split: TokenSplit, *, limit_tokens: int | None = None, first: int = 0, every: int = 1
) -> list[Score]:
    """Returns the scores of the batches of a split, or of every so manieth from the first on.

    Whoever has a batch less than the others runs one again: weights that are cut over processes need all of them.
    """
    scores: list[Score] = []
    with _looking_at(model):
        for number, batch in enumerate(_windows(model, split, limit_tokens)):
            if number % every == first:
                scores.append(_score(model, batch))
        if len(scores) <= number // every:
            _score(model, batch)
    return scores


def loss_report(split: TokenSplit, scores: Iterable[Score]) -> LossReport:
    """Returns the mean over all batches of a split, in their order."""
    nats, tokens, positions = 0.0, 0, 0
    for score in scores:
        nats, tokens, positions = nats + score.nats, tokens + score.tokens, positions + score.positions
    loss = nats / max(1, tokens)
    bits_per_byte = loss / math.log(2) / split.bytes_per_token
    return LossReport(nats_per_token=loss, bits_per_byte=bits_per_byte, tokens=tokens, positions=positions)


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceLosses:
    """The loss of a model over a split, piece by piece: what two models are compared by."""

    nats_G: Float64[np.ndarray, " G"]  # noqa: N815 - axis letters
    """Sum over the targets of each piece."""
    tokens_G: Int64[np.ndarray, " G"]  # noqa: N815 - axis letters
    """Targets of each piece."""

    @property
    def nats_per_token(self) -> float:
        """Returns the mean over all targets."""
        return float(self.nats_G.sum() / self.tokens_G.sum())


def piece_losses(model: GPT, split: TokenSplit) -> PieceLosses:
    """Returns the loss over up to 50 equal pieces of the split, each target once.

    Targets belong to pieces by their place in the split alone, so models of any context can be paired.
    """
    targets = len(split) - 1
    pieces = max(1, min(_PIECES, targets // _LEAST_PIECE))
    nats_G, tokens_G = np.zeros(pieces), np.zeros(pieces, dtype=np.int64)
    with _looking_at(model):
        for batch in _windows(model, split, None):
            piece_BT = (batch.starts_B[:, None] + np.arange(batch.targets_BT.shape[1])) * pieces // targets
            nats_BT = _token_losses(*_predicted(model, batch))
            nats_G += np.bincount(piece_BT.ravel(), nats_BT.double().cpu().numpy().ravel(), pieces)
            tokens_G += np.bincount(piece_BT[batch.targets_BT != IGNORED], minlength=pieces)
    return PieceLosses(nats_G=nats_G, tokens_G=tokens_G)


@contextmanager
def _looking_at(model: GPT) -> Iterator[None]:
    """Runs the model without dropout and gradients; it comes back in the mode it was in.

    Not in torch's inference mode: weights that are cut over processes are gathered into lasting tensors.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def _windows(model: GPT, split: TokenSplit, limit_tokens: int | None) -> Iterator[Batch]:
    context = model.config.context
    batch_size = max(1, min(_BATCH_TOKENS, _BATCH_LOGITS // model.config.vocab_size) // context)
    limit = None if limit_tokens is None else max(1, limit_tokens // context)
    return evaluation_batches(split, context, batch_size, limit)


def _predicted(model: GPT, batch: Batch) -> tuple[Float[Tensor, "B T V"], Int64[Tensor, "B T"]]:
    device = next(model.parameters()).device
    return model(torch.from_numpy(batch.inputs_BT).to(device)), torch.from_numpy(batch.targets_BT).to(device)


def _score(model: GPT, batch: Batch) -> Score:
    nats = next_token_loss(*_predicted(model, batch), reduction="sum").item()
    return Score(nats, batch.n_targets, batch.targets_BT.size)


def _token_losses(logits_BTV: Float[Tensor, "B T V"], targets_BT: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    losses = F.cross_entropy(
        logits_BTV.flatten(0, 1).float(), targets_BT.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return losses.view(targets_BT.shape)
