"""What the mask buys in generation: keys and values that stay valid, until the window slides.

Axes: B batch, T queries, S keys, H heads, K head width, V vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextok.decode import SamplingConfig, generate
from nextok.lessons.parallel import IDS, fastest, milliseconds, reads, timed_model
from nextok.lessons.tinygpt import PROMPT, greedy, lesson_loop, tiny_gpt
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import GPT, TorchDecoder, weight_arrays
from nextok.reference import NumpyDecoder
from nextok.spec import count

_HELD_LENGTHS = (32, 128, 512)


def _kv_cache() -> Worked:
    model = tiny_gpt()
    with reads(model) as recomputed:
        plain = lesson_loop(model, PROMPT, 5)
    with reads(model) as cached:
        ids = greedy(model, PROMPT, 5)
    in_numpy = NumpyDecoder(model.config, weight_arrays(model))
    [[generation]] = generate(in_numpy, None, [PROMPT], SamplingConfig(temperature=0, max_new_tokens=5))
    gap = max(float(abs(step.numpy() - other).max()) for step, other in zip(plain, _cached_logits(model), strict=True))
    steps = [_time_step(held) for held in _HELD_LENGTHS]
    return Worked(
        question="Five tokens after a prompt of three: how many tokens go through the model with and without a cache?",
        answer="25 without, 3 + 4 + 5 + 6 + 7; 7 with a cache, 3 and then one for each of the four that are read.",
        facts=(
            Fact(what="token passes: recomputed, cached", expected=(25, 7), computed=(sum(recomputed), sum(cached))),
            Fact(
                what="scores a head and layer: recomputed, cached",
                expected=(135, 31),
                computed=(_scores_recomputed(recomputed), _scores_cached(cached)),
            ),
            Fact(
                what="ids: recomputed",
                expected=IDS,
                computed=(*PROMPT, *(int(logits_V.argmax()) for logits_V in plain)),
            ),
            Fact(what="ids: cached", expected=IDS, computed=ids),
            Fact(
                what="bytes a token in the cache", expected=1_024, computed=count(model.config).kv_cache_bytes_per_token
            ),
            Fact(what="ids: cached, in NumPy", expected=IDS, computed=(*PROMPT, *generation.ids)),
            Fact(what="largest difference of the logits", expected=0.0, computed=gap, tolerance=1e-5),
            Fact(
                what="scores when T doubles to 1,024: recomputed x 8, cached x 4",
                expected=(8, 4),
                computed=(
                    round(_scores_recomputed(range(1, 1025)) / _scores_recomputed(range(1, 513))),
                    round(_scores_cached([1] * 1024) / _scores_cached([1] * 512)),
                ),
            ),
            Fact(
                what="a cached step at 512 tokens is faster than a pass",
                expected=True,
                computed=steps[-1].cached_s < steps[-1].pass_s,
            ),
        ),
        why=(
            "Keys and values of a position depend on its own token and those before it, never on what follows, so they "
            "are computed once and kept. A step then runs the matrices on one token and compares one query with t "
            "keys: a constant plus O(t). Recomputing reads t tokens and fills t x t scores at every step. "
            "The price is memory: two vectors a layer and token, here 1,024 bytes."
        ),
        grids=(
            Grid(
                title="work to generate T tokens from one, in a head and layer",
                columns=("T", "token passes", "scores", "token passes, cached", "scores, cached"),
                rows=tuple(_work_row(T) for T in (8, 64, 1024)),
            ),
            Grid(
                title="one step on this machine, in milliseconds",
                columns=("tokens held", "cached step", "pass over all"),
                rows=tuple((str(each.held), milliseconds(each.cached_s), milliseconds(each.pass_s)) for each in steps),
            ),
        ),
        corrections=(
            'Printed: "O(T^2) work that repeats". Right: generating T tokens anew each time takes O(T^2) token passes '
            "and O(T^3) attention; with a cache a step takes O(t) attention and a constant for the rest.",
        ),
    )


def _cache_and_window() -> Worked:
    model = tiny_gpt()
    ids = greedy(model, PROMPT, 6)
    with reads(model) as lengths:
        greedy(model, PROMPT, 8)
    grown = _key_change(model, ids[:7], ids[:8], shift=0)
    slid = _key_change(model, ids[:8], ids[1:9], shift=1)
    with model.replace({"embed.positions": torch.zeros_like}):
        unplaced = _key_change(model, ids[:8], ids[1:9], shift=1)
    return Worked(
        question="The context of 8 is full and the window slides by one: may the cached keys and values stay?",
        answer="No: every token stands a place lower and the first is gone, so the cache is read again from the start.",
        facts=(
            Fact(
                what="keys of 7 tokens when an 8th is added: change", expected=0.0, computed=max(grown), tolerance=1e-5
            ),
            Fact(what="keys after the slide: change in both blocks", expected=True, computed=min(slid) > 0.1),
            Fact(
                what="the same without positions: block 0 keeps its keys, block 1 does not",
                expected=(True, False),
                computed=(unplaced[0] < 1e-5, unplaced[1] < 1e-3),
            ),
            Fact(
                what="logits with the old keys and values: off", expected=True, computed=_stale_gap(model, ids) > 0.01
            ),
            Fact(what="tokens read at each of 8 steps", expected=(3, 1, 1, 1, 1, 1, 8, 8), computed=tuple(lengths)),
        ),
        why=(
            "A key is made of a token and its place. While the text grows both stay, and so does the key. "
            "When the window slides, learned positions shift under every token. "
            "Even without positions the second block's keys change, since they were computed while the dropped token "
            "could still be seen. So past the context each step costs a full pass, with overflow = slide."
        ),
        grids=(
            Grid(
                title="largest change of a key",
                columns=("", "block 0", "block 1"),
                rows=tuple(
                    (name, *map(spelled, changes))
                    for name, changes in (
                        ("one token more", grown),
                        ("window slides", slid),
                        ("window slides, no positions", unplaced),
                    )
                ),
            ),
        ),
        corrections=(
            'Printed: keys and values "never change". Right: while positions stay; once the window slides, learned '
            "positions shift and the cache must be rebuilt.",
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """What the next token costs, with so many before it."""

    held: int
    cached_s: float
    pass_s: float


def _time_step(held: int) -> _Step:
    model = timed_model()
    ids = [t % model.config.vocab_size for t in range(held)]
    decoder = TorchDecoder(model)
    decoder.prefill(0, ids[:-1])

    def step() -> None:
        decoder.step([0], ids[-1:])
        decoder.truncate(0, held - 1)

    with torch.inference_mode():
        return _Step(held=held, cached_s=fastest(step), pass_s=fastest(lambda: model(torch.tensor([ids]))))


def _cached_logits(model: GPT) -> list[NDArray[np.float32]]:
    """Returns the logits `[V]` of the five greedy steps, by the cached decoder."""
    decoder = TorchDecoder(model)
    steps = [decoder.prefill(0, PROMPT)]
    for token in IDS[len(PROMPT) : -1]:
        steps.append(decoder.step([0], [token])[0])
    return steps


def _scores_recomputed(reads: Iterable[int]) -> int:
    """Returns the attention scores of passes that each read everything: t x t for each."""
    return sum(t * t for t in reads)


def _scores_cached(reads: Iterable[int]) -> int:
    """Returns the attention scores of passes that read new tokens only: new x held for each."""
    scores = held = 0
    for new in reads:
        held += new
        scores += new * held
    return scores


def _work_row(T: int) -> tuple[str, ...]:
    recomputed, cached = range(1, T + 1), [1] * T
    counts = (sum(recomputed), _scores_recomputed(recomputed), sum(cached), _scores_cached(cached))
    return tuple(map(spelled, (T, *counts)))


def _key_change(model: GPT, before: Sequence[int], after: Sequence[int], *, shift: int) -> tuple[float, ...]:
    """Returns for each block the largest change of a key of the tokens that both have, `shift` places lower after."""
    names = ["blocks.0.attn.k", "blocks.1.attn.k"]
    with torch.inference_mode():
        old, new = (model.trace(torch.tensor([ids]), names) for ids in (before, after))
    kept = len(before) - shift
    return tuple((new[name][:, :, :kept] - old[name][:, :, shift:]).abs().max().item() for name in names)


def _stale_gap(model: GPT, ids: Sequence[int]) -> float:
    """Returns how far the logits after the slide are off, if the first 7 keys and values are those from before it."""
    names = [f"blocks.{layer}.attn.{part}" for layer in (0, 1) for part in ("k", "v")]
    window_1T = torch.tensor([ids[1:9]])
    with torch.inference_mode():
        old = model.trace(torch.tensor([ids[:8]]), names)
        right_V = model(window_1T)[0, -1]
        with model.replace({name: _with_first(old[name][:, :, 1:]) for name in names}):
            return (model(window_1T)[0, -1] - right_V).abs().max().item()


def _with_first(old_BHSK: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns a change that puts these in place of the first keys or values."""
    return lambda new_BHTK: torch.cat([old_BHSK, new_BHTK[:, :, old_BHSK.shape[2] :]], dim=2)


EXAMPLES: tuple[Example, ...] = (
    Example(name="kv-cache", lesson="C; A, slides 31-35", title="cached against recomputed", run=_kv_cache),
    Example(name="cache-and-window", lesson="C", title="when cached keys stop being valid", run=_cache_and_window),
)
