"""Text from a grammar of a screen, and models trained on it in a second or two, for examples that need a trained one.

A character is a token. A sentence has about 30 of them and two free choices in three words, so a model that has learned
the words still has something to be unsure of.
"""

import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nextok.lessons.threads import threads
from nextok.model import GPT, build, next_token_loss
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, char_tokenizer

CONTEXT = 32
_ADJECTIVES = ("small", "old", "red", "happy")
_NOUNS = ("cat", "dog", "bird", "king", "child")
_VERBS = ("sees", "likes", "finds", "hears")


@dataclass(frozen=True, slots=True)
class Trained:
    """A model after its steps; it is shared, so nobody changes it."""

    model: GPT
    losses: tuple[float, ...]
    """Of each step, before it, nats a token."""


def write(sentences: int, seed: int) -> str:
    """Returns that many sentences, one a line, such as `the red cat finds an old king`."""
    draw = random.Random(seed)

    def noun_phrase() -> str:
        adjective = draw.choice(_ADJECTIVES)
        article = draw.choice(("the", "an" if adjective[0] in "aeiou" else "a"))
        return f"{article} {adjective} {draw.choice(_NOUNS)}"

    return "".join(f"{noun_phrase()} {draw.choice(_VERBS)} {noun_phrase()}\n" for _ in range(sentences))


@cache
def tokenizer() -> Tokenizer:
    """Returns the tokenizer of the text: its characters, no end of text."""
    return char_tokenizer(sorted(set(write(500, seed=0))), end_of_text=False)


def windows(count: int, seed: int, length: int = CONTEXT + 1) -> Int[Tensor, "B T"]:
    """Returns that many stretches of fresh text as ids `[B, T]`; other seeds are other text."""
    ids_N = tokenizer().encode(write(400, seed))
    starts = np.random.default_rng(seed).integers(0, len(ids_N) - length, count)
    return torch.from_numpy(np.stack([ids_N[start : start + length] for start in starts]))


def train(config: ModelConfig, *, steps: int, lr: float, batch_size: int = 16, seed: int = 0) -> Trained:
    """Returns a fresh model after AdamW steps at a constant rate, each on other text."""
    model = build(config, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    ids_NT = windows(steps * batch_size, seed=seed + 1, length=config.context + 1)
    losses = []
    with threads(1):
        for batch_BT in ids_NT.split(batch_size):
            loss = next_token_loss(model(batch_BT[:, :-1]), batch_BT[:, 1:])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return Trained(model.eval(), tuple(losses))


@cache
def small_gpt() -> Trained:
    """Returns the small GPT of these examples, trained: 150 steps of 16 windows."""
    return train(_config(causal=True), steps=150, lr=6e-3)


@cache
def small_cheat() -> Trained:
    """Returns the same without the mask, trained alike: every position saw every other, its own target among them."""
    return train(_config(causal=False), steps=150, lr=6e-3)


def _config(*, causal: bool) -> ModelConfig:
    return ModelConfig(
        n_layers=2,
        d_model=32,
        n_heads=2,
        context=CONTEXT,
        vocab_size=tokenizer().vocab_size,
        mask="causal" if causal else "none",
        tied_head=False,
        init="torch",  # positions of length sqrt(D), which such a short training cannot grow
    )
