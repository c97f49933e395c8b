"""The loss over a whole split: every target once, on fixed windows, whatever the training does.

In nats per token, and in bits per byte, which compares models whatever their tokenizer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from nextok.corpus import Batch, TokenSplit, evaluation_batches
from nextok.model import GPT, IGNORED, next_token_loss

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
        limit_tokens: Score only about this many targets, spread over the split; for estimates of time.
    """
    return loss_report(split, score_batches(model, split, limit_tokens=limit_tokens))


def score_batches(
    model: GPT, split: TokenSplit, *, limit_tokens: int | None = None, first: int = 0, every: int = 1
) -> list[tuple[float, int]]:
    """Returns summed loss in nats and targets of the batches of a split, or of every so manieth from the first on.

    Whoever has a batch less than the others runs one again: weights that are cut over processes need all of them.
    """
    context = model.config.context
    batch_size = max(1, min(_BATCH_TOKENS, _BATCH_LOGITS // model.config.vocab_size) // context)
    limit = None if limit_tokens is None else max(1, limit_tokens // context)
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    scores: list[tuple[float, int]] = []
    with torch.no_grad():  # not inference mode: weights that are cut over processes are gathered into lasting tensors
        for number, batch in enumerate(evaluation_batches(split, context, batch_size, limit)):
            if number % every == first:
                scores.append(_score(model, batch, device))
        if len(scores) <= number // every:
            _score(model, batch, device)
    model.train(was_training)
    return scores


def loss_report(split: TokenSplit, scores: Iterable[tuple[float, int]]) -> LossReport:
    """Returns the mean over all batches of a split, in their order."""
    nats, tokens = 0.0, 0
    for batch_nats, batch_tokens in scores:
        nats += batch_nats
        tokens += batch_tokens
    loss = nats / tokens
    return LossReport(nats_per_token=loss, bits_per_byte=loss / math.log(2) / split.bytes_per_token, tokens=tokens)


def _score(model: GPT, batch: Batch, device: torch.device) -> tuple[float, int]:
    logits_BTV = model(torch.from_numpy(batch.inputs_BT).to(device))
    nats = next_token_loss(logits_BTV, torch.from_numpy(batch.targets_BT).to(device), reduction="sum").item()
    return nats, int((batch.targets_BT != IGNORED).sum())
