"""The baseline of `time_to_loss.py`: nanoGPT's CPU recipe as a plain float32 PyTorch loop, nothing of nextok.

4 layers, 4 heads, width 128, context 64, no dropout, no biases; 12 sequences a step, 2,000 steps; AdamW 1e-3 to 1e-4
by a cosine after 100 steps of warm-up, betas 0.9 and 0.99, decay 0.1 of matrices, gradients clipped at 1. Windows are
drawn with replacement. Source: nanoGPT's README (its flags for a CPU) and the defaults of its train.py. Written once;
it is never tuned.

python benchmarks/reference_loop.py TEXT --seed 0
"""

import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, HEADS, WIDTH, CONTEXT = 4, 4, 128, 64
BATCH, STEPS, WARMUP = 12, 2000, 100
LR, LEAST_LR = 1e-3, 1e-4


class Block(nn.Module):
    """Attention and a feed-forward network, each after a LayerNorm and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the stream after this layer."""
        batch, positions, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (each.view(batch, positions, HEADS, WIDTH // HEADS).transpose(1, 2) for each in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).contiguous().view(batch, positions, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """GPT-2's shape with a tied head."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Returns the mean loss."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def rate(step: int) -> float:
    """Returns the learning rate of a step."""
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / (STEPS - WARMUP)
    return LEAST_LR + 0.5 * (1 + math.cos(math.pi * share)) * (LR - LEAST_LR)


def windows(split: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the whole split as inputs and targets that do not overlap; what fills no window is left."""
    count = (len(split) - 1) // CONTEXT
    return split[: count * CONTEXT].view(count, CONTEXT), split[1 : count * CONTEXT + 1].view(count, CONTEXT)


def main() -> None:
    """Trains, and prints seconds of training steps alone, tokens a second and the loss of the validation split."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="for a short measurement of speed")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    with open(arguments.text, encoding="utf-8") as file:
        text = file.read()
    letters = {letter: id for id, letter in enumerate(sorted(set(text)))}
    ids = torch.tensor([letters[letter] for letter in text])
    train, validation = ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]
    model = Model(len(letters))
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99))
    begun = time.perf_counter()
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        starts = torch.randint(len(train) - CONTEXT, (BATCH,))
        inputs = torch.stack([train[start : start + CONTEXT] for start in starts])
        targets = torch.stack([train[start + 1 : start + CONTEXT + 1] for start in starts])
        loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - begun
    inputs, targets = windows(validation)
    with torch.no_grad():
        parts = zip(inputs.split(128), targets.split(128), strict=True)
        nats = sum(model(*part).item() * part[0].numel() for part in parts)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "tokens_per_s": arguments.steps * BATCH * CONTEXT / seconds,
                "parameters": sum(p.numel() for p in model.parameters()),
                "val_loss": nats / inputs.numel(),
            }
        )
    )


if __name__ == "__main__":
    main()
