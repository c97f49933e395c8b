"""What a trained model does when a part is changed: no mask, no sampling, norms after the sum. Each is trained here."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nextok.decode import SamplingConfig, generate
from nextok.lessons import sentences
from nextok.lessons.threads import threads
from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.model import GPT, TorchDecoder, next_token_loss
from nextok.spec import ModelConfig

_Place = Literal["before", "after"]
_PREFIXES = (8, 16, 31)
_PLACES: tuple[_Place, _Place] = ("before", "after")


def _mask_off() -> Worked:
    window_BT = sentences.windows(64, seed=99)
    masked, cheat = sentences.small_gpt(), sentences.small_cheat()
    seen = {"on": _whole_window(masked.model, window_BT), "off": _whole_window(cheat.model, window_BT)}
    past = {"on": _past_only(masked.model, window_BT), "off": _past_only(cheat.model, window_BT)}
    same_places = _at_prefixes(masked.model, window_BT)
    chance = math.log(masked.model.config.vocab_size)
    return Worked(
        question=(
            "Two models are trained alike, one without the causal mask. Which has the lower loss, and which can write?"
        ),
        answer=(
            f"The one without, {seen['off']:.2f} against {seen['on']:.2f}; but from the past alone it is worse than "
            f"guessing, {past['off']:.2f} against {past['on']:.2f}."
        ),
        facts=(
            Fact(what="future visible: lower without the mask", expected=True, computed=seen["off"] < seen["on"]),
            Fact(what="past only: lower with the mask", expected=True, computed=past["on"] < past["off"]),
            Fact(what="past only, without the mask: worse than ln V", expected=True, computed=past["off"] > chance),
            Fact(
                what="with the mask: past only equals the same positions of the whole window",
                expected=True,
                computed=abs(past["on"] - same_places) < 1e-4,
            ),
        ),
        why=(
            "The target of position t is the token at t + 1. Without the mask it is one of the inputs, and copying it "
            "is easier than knowing the language. When the model has to write, that token does not exist yet, and it "
            "has learned nothing else. With the mask, reading a prefix and reading the whole window are the same "
            "computation at the prefix's end, so at the same positions its loss in training is its loss in writing."
        ),
        grids=(
            Grid(
                title=f"Nats a character after 150 steps; guessing costs ln V = {chance:.2f}",
                columns=("mask", "first step", "last step", "future visible", "past only"),
                rows=tuple(
                    (mask, *(f"{x:.2f}" for x in (one.losses[0], one.losses[-1], seen[mask], past[mask])))
                    for mask, one in (("on", masked), ("off", cheat))
                ),
            ),
        ),
        corrections=(
            "Printed: the run on random tokens proves the training. Right: that run only memorises, and its losses "
            "with and without the mask are nearly the same; a missing mask shows on text that was not seen, scored "
            "from the past alone.",
        ),
    )


def _whole_window(model: GPT, window_BT: Int[Tensor, "B T"]) -> float:
    with torch.inference_mode():
        return next_token_loss(model(window_BT[:, :-1]), window_BT[:, 1:]).item()


def _past_only(model: GPT, window_BT: Int[Tensor, "B T"]) -> float:
    """Feeds a prefix and scores its last position alone, as generation does."""
    with torch.inference_mode():
        losses = [next_token_loss(model(window_BT[:, :n])[:, -1:], window_BT[:, n : n + 1]).item() for n in _PREFIXES]
    return sum(losses) / len(losses)


def _at_prefixes(model: GPT, window_BT: Int[Tensor, "B T"]) -> float:
    """Feeds the whole window and scores the same positions."""
    with torch.inference_mode():
        logits_BTV = model(window_BT[:, :-1])
    losses = [next_token_loss(logits_BTV[:, n - 1 : n], window_BT[:, n : n + 1]).item() for n in _PREFIXES]
    return sum(losses) / len(losses)


def _greedy_or_sampled() -> Worked:
    texts = {temperature: _continuations(temperature) for temperature in (0.0, 1.0)}
    distinct = {temperature: _distinct_trigrams(each) for temperature, each in texts.items()}
    different = {temperature: len(set(each)) for temperature, each in texts.items()}
    return Worked(
        question=(
            "Greedy decoding takes the likeliest token each time. What do four continuations of one prompt look like?"
        ),
        answer="All four are the same text, and it repeats itself; sampled ones differ and repeat less.",
        facts=(
            Fact(what="different texts of 4, greedy", expected=1, computed=different[0.0]),
            Fact(what="different texts of 4, temperature 1", expected=4, computed=different[1.0]),
            Fact(what="greedy repeats more", expected=True, computed=distinct[0.0] < distinct[1.0]),
        ),
        why=(
            "Argmax is a function of the context: once the window comes back to what it was, everything after it does "
            "too. After the same words the same word is likeliest, so sentences come again. Sampling follows the "
            "distribution, where the likeliest token may have well under half of the probability; temperature divides "
            "the logits and flattens it, at the price of more mistakes."
        ),
        grids=(
            Grid(
                title="Continuations of a line break, 240 characters each",
                columns=("temperature", "different texts of 4", "distinct word trigrams", "how the first begins"),
                rows=tuple(
                    (f"{t:g}", str(different[t]), f"{100 * distinct[t]:.0f} %", texts[t][0][:44].replace("\n", " / "))
                    for t in texts
                ),
            ),
        ),
    )


def _continuations(temperature: float) -> list[str]:
    config = SamplingConfig(max_new_tokens=240, temperature=temperature, n=4, overflow="half")
    decoder = TorchDecoder(sentences.small_gpt().model, n_slots=4)
    tokenizer = sentences.tokenizer()
    with threads(1):
        return [one.text for one in generate(decoder, tokenizer, [tokenizer.encode("\n")], config)[0]]


def _distinct_trigrams(texts: Sequence[str]) -> float:
    """Returns the share of three words in a row that are there for the first time, over the mean text."""
    shares = []
    for text in texts:
        words = text.split()
        trigrams = list(zip(words, words[1:], words[2:], strict=False))
        shares.append(len(set(trigrams)) / max(1, len(trigrams)))
    return sum(shares) / len(shares)


def _norm_placement() -> Worked:
    rates = (1e-3, 3e-3, 1e-2)
    curves = {(place, lr): _deep_run(place, lr) for place in _PLACES for lr in rates}
    ends = {key: sum(losses[-5:]) / 5 for key, losses in curves.items()}
    letters = _letter_entropy()
    top = rates[-1]
    return Worked(
        question="Twelve narrow layers, three learning rates: does it matter whether the norm stands before or after?",
        answer=(
            f"At {rates[0]:g} hardly; at {top:g} pre-norm learns faster than there ({ends['before', top]:.2f}) and "
            f"post-norm learns nothing but how often each letter comes ({ends['after', top]:.2f})."
        ),
        facts=(
            Fact(
                what="at 1e-3 they are within 0.3 of each other",
                expected=True,
                computed=abs(ends["before", rates[0]] - ends["after", rates[0]]) < 0.3,
            ),
            Fact(
                what="at 1e-2 pre-norm is ahead by more than 0.5",
                expected=True,
                computed=ends["after", top] - ends["before", top] > 0.5,
            ),
            Fact(
                what="pre-norm gains from the higher rate",
                expected=True,
                computed=ends["before", top] < ends["before", rates[0]],
            ),
            Fact(
                what="post-norm stays at the frequencies of letters",
                expected=True,
                computed=abs(ends["after", top] - letters) < 0.2,
            ),
        ),
        why=(
            "With the norm before the sublayer the residual stream is a plain sum, and the gradient reaches every "
            "layer through it unchanged. With the norm after the sum, each layer rescales what passes, twelve times "
            "over, and the first steps at a high rate drown the signal: such a model needs a warm-up, a lower rate, or "
            "smaller first weights. GPT-1 was post-norm with warm-up; pre-norm came with GPT-2."
        ),
        grids=(
            Grid(
                title=f"Loss at the same rates, 12 layers of width 32; letter frequencies alone give {letters:.2f}",
                columns=("norm", "rate", "step 1", "step 10", "step 20", "mean of 26 to 30"),
                rows=tuple(
                    (place, f"{lr:g}", *(f"{losses[i]:.2f}" for i in (0, 9, 19)), f"{ends[place, lr]:.2f}")
                    for (place, lr), losses in curves.items()
                ),
            ),
        ),
        corrections=(
            "Printed: removing cross-attention from the Transformer's decoder gives the pre-norm block. Right: it "
            "gives a post-norm block, which GPT-1 had; pre-norm came with GPT-2.",
        ),
    )


def _deep_run(place: _Place, lr: float) -> tuple[float, ...]:
    config = ModelConfig(
        n_layers=12,
        d_model=32,
        n_heads=2,
        context=16,
        vocab_size=sentences.tokenizer().vocab_size,
        norm_placement=place,
        tied_head=False,
        init="torch",  # GPT-2's scaled projections hide the difference at this depth
    )
    return sentences.train(config, steps=30, lr=lr, batch_size=8).losses


def _letter_entropy() -> float:
    """Returns the loss of a model that knows only how often each character comes."""
    counts = np.bincount(sentences.windows(256, seed=7).flatten().numpy())
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


EXAMPLES: tuple[Example, ...] = (
    Example(name="mask-off", lesson="C", title="what a model without the mask learns", run=_mask_off),
    Example(
        name="greedy-or-sampled", lesson="A, slides 31-35", title="repetition and diversity", run=_greedy_or_sampled
    ),
    Example(name="norm-placement", lesson="A, slide 4", title="pre-norm against post-norm", run=_norm_placement),
)
