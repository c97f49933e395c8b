"""The loss over a whole split: every target once, on fixed windows, whatever the training does.

In nats per token, and in bits per byte, which compares models whatever their tokenizer. Where the split has prompts,
both are those of the completions alone.
"""

import math
from dataclasses import dataclass

import torch

from nextok.corpus import TokenSplit, evaluation_batches
from nextok.model import GPT, next_token_loss

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
    context = model.config.context
    batch_size = max(1, min(_BATCH_TOKENS, _BATCH_LOGITS // model.config.vocab_size) // context)
    limit = None if limit_tokens is None else max(1, limit_tokens // context)
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    nats, tokens, positions = 0.0, 0, 0
    with torch.inference_mode():
        for batch in evaluation_batches(split, context, batch_size, limit):
            logits_BTV = model(torch.from_numpy(batch.inputs_BT).to(device))
            targets_BT = torch.from_numpy(batch.targets_BT).to(device)
            nats += next_token_loss(logits_BTV, targets_BT, reduction="sum").item()
            tokens += batch.n_targets
            positions += batch.targets_BT.size
    model.train(was_training)
    loss = nats / max(1, tokens)
    bits_per_byte = loss / math.log(2) / split.bytes_per_token
    return LossReport(nats_per_token=loss, bits_per_byte=bits_per_byte, tokens=tokens, positions=positions)
