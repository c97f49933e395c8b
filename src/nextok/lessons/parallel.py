"""What the mask buys in training: every prefix read in one pass. What it buys in generation is `caching`.

Times are of this machine and only shown; what must hold is counted or compared.
Axes: B batch, T positions, H heads, S keys, K head width, V vocabulary.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from nextok.decode import SamplingConfig, generate
from nextok.lessons.tinygpt import tiny_gpt
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import GPT, TorchDecoder, build, next_token_loss
from nextok.spec import ModelConfig

IDS = (5, 12, 3, 42, 2, 38, 35, 35)
_TRAINED_LENGTHS = (8, 16, 32, 64)
_REPEATS = 3


def _one_pass() -> Worked:
    model, open_model = tiny_gpt(), tiny_gpt(mask="none")
    change_T, open_change_T = _change_by_token_5(model), _change_by_token_5(open_model)
    gap_T, open_gap_T = _gap_to_prefixes(model), _gap_to_prefixes(open_model)
    with reads(model) as one:
        model(torch.tensor([IDS]))
    with reads(model) as many:
        _prefix_logits(model)
    return Worked(
        question="Does GPT train on tokens one after another, as it generates them?",
        answer="No: one pass over 8 tokens gives the logits that 8 passes over its prefixes give, all at once.",
        facts=(
            Fact(what="passes: all at once, prefix by prefix", expected=(1, 8), computed=(len(one), len(many))),
            Fact(what="largest difference of the logits", expected=0.0, computed=gap_T.max().item(), tolerance=1e-5),
            Fact(
                what="change of logits 0-4 when token 5 changes",
                expected=(0.0,) * 5,
                computed=tuple(change_T[:5].tolist()),
            ),
            Fact(what="logits 5-7 change", expected=True, computed=bool((change_T[5:] > 1e-3).all())),
            Fact(
                what="without the mask: largest difference to the prefixes",
                expected=0.36,
                computed=open_gap_T.max().item(),
                tolerance=0.005,
            ),
            Fact(
                what="without the mask: logits 0-4 change too",
                expected=True,
                computed=bool((open_change_T[:5] > 1e-3).all()),
            ),
        ),
        why=(
            "The mask lets position t see tokens 0 to t and nothing else, so it computes what it would if the text "
            "ended there. In training the true text is known (teacher forcing), so all prefixes are read at once and "
            "every position has its target. In generation the next input does not exist before it is chosen. "
            "Without the mask every position sees the whole text and no prefix is what it seems."
        ),
        grids=(
            Grid(
                title="change of the logits when token 5 changes",
                columns=("position", "causal", "no mask"),
                rows=tuple(
                    (str(t), spelled(with_mask), spelled(without))
                    for t, (with_mask, without) in enumerate(
                        zip(change_T.tolist(), open_change_T.tolist(), strict=True)
                    )
                ),
            ),
        ),
        corrections=(
            'Printed: "unlike RNNs every token is a target". Right: in RNNs too; the difference is that a GPT computes '
            "all positions of a layer at once, and an RNN each after the one before.",
        ),
    )


def _parallel_training() -> Worked:
    model, ids_1T = tiny_gpt(), torch.tensor([IDS])
    gap = max((one - other).abs().max().item() for one, other in zip(*_gradients(model, ids_1T), strict=True))
    timings = [_time_training(T) for T in _TRAINED_LENGTHS]
    longest = timings[-1]
    return Worked(
        question="What does training cost on T tokens, against reading each prefix or generating T tokens?",
        answer="One pass in place of T: the gradients are the same, and the T steps of generation stay T steps.",
        facts=(
            Fact(what="gradient of one pass, less that of 7 prefixes", expected=0.0, computed=gap, tolerance=1e-6),
            Fact(
                what=f"passes over {longest.T} tokens: training, prefixes, generation",
                expected=(1, 64, 64),
                computed=longest.passes,
            ),
            Fact(
                what="training in one pass is faster than by prefixes",
                expected=True,
                computed=longest.one_pass_s < longest.prefixes_s,
            ),
        ),
        why=(
            "The loss is a mean over positions, and with the mask each position's term is the term of its prefix; so "
            "the gradient of the one pass is the mean of theirs. "
            "It reads T tokens where the prefixes read T(T + 1)/2, in products of T rows, which the machine does well. "
            "Generation cannot be bundled, because each input is the output before; a cache makes its steps short."
        ),
        grids=(
            Grid(
                title="milliseconds on this machine, forward passes only",
                columns=("T", "one pass (training)", "a pass for each prefix", "generating T, cached"),
                rows=tuple(
                    (str(each.T), *map(milliseconds, (each.one_pass_s, each.prefixes_s, each.generation_s)))
                    for each in timings
                ),
            ),
        ),
    )


@contextmanager
def reads(model: GPT) -> Iterator[list[int]]:
    """Yields a list that fills with the tokens of each pass through the model, cached or not."""
    lengths: list[int] = []
    handle = model.embed.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    try:
        yield lengths
    finally:
        handle.remove()


def _prefix_logits(model: GPT, ids: Sequence[int] = IDS) -> Tensor:
    """Returns the last logits of a pass over each prefix, `[T, V]`."""
    with torch.inference_mode():
        return torch.stack([model(torch.tensor([ids[: t + 1]]))[0, -1] for t in range(len(ids))])


def _gap_to_prefixes(model: GPT) -> Tensor:
    """Returns the largest difference between one pass and the pass over each prefix, `[T]`."""
    with torch.inference_mode():
        return (model(torch.tensor([IDS]))[0] - _prefix_logits(model)).abs().amax(-1)


def _change_by_token_5(model: GPT) -> Tensor:
    """Returns the largest change of the logits at each position when token 5 is another, `[T]`."""
    changed = (*IDS[:5], IDS[5] + 1, *IDS[6:])
    with torch.inference_mode():
        return (model(torch.tensor([changed]))[0] - model(torch.tensor([IDS]))[0]).abs().amax(-1)


def _gradients(model: GPT, ids_1T: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the gradient of the loss from one pass, and the mean of those of the passes over its prefixes."""
    inputs_1T, targets_1T = ids_1T[:, :-1], ids_1T[:, 1:]
    T, weights = inputs_1T.shape[1], list(model.parameters())
    whole = torch.autograd.grad(next_token_loss(model(inputs_1T), targets_1T), weights)
    last = [model(inputs_1T[:, : t + 1])[:, -1:] for t in range(T)]
    losses = [next_token_loss(logits_11V, targets_1T[:, t : t + 1]) for t, logits_11V in enumerate(last)]
    return list(whole), list(torch.autograd.grad(torch.stack(losses).mean(), weights))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Training:
    """What T tokens cost, by three ways of reading them."""

    T: int
    passes: tuple[int, int, int]
    one_pass_s: float
    prefixes_s: float
    generation_s: float


def _time_training(T: int) -> _Training:
    model = timed_model()
    ids = [t % model.config.vocab_size for t in range(T)]
    ways: tuple[Callable[[], object], ...] = (
        lambda: model(torch.tensor([ids])),
        lambda: _prefix_logits(model, ids),
        lambda: generate(TorchDecoder(model), None, [ids[:1]], SamplingConfig(temperature=0, max_new_tokens=T)),
    )
    passes, seconds = [], []
    for way in ways:
        with reads(model) as lengths, torch.inference_mode():
            seconds.append(fastest(way))
        passes.append(len(lengths) // _REPEATS)
    return _Training(
        T=T,
        passes=(passes[0], passes[1], passes[2]),
        one_pass_s=seconds[0],
        prefixes_s=seconds[1],
        generation_s=seconds[2],
    )


@cache
def timed_model() -> GPT:
    """Returns the model that times are taken of: two blocks of width 64, a context of 512. It is shared."""
    return build(ModelConfig(vocab_size=50, n_layers=2, d_model=64, n_heads=4, context=512), seed=0)


def fastest(run: Callable[[], object]) -> float:
    """Returns the seconds of the fastest of a few runs: what a busy machine adds is not the program's."""
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def milliseconds(seconds: float) -> str:
    """Returns the time as a table shows it."""
    return f"{1000 * seconds:.2f}"


EXAMPLES: tuple[Example, ...] = (
    Example(name="one-pass", lesson="A, slides 13-15", title="does GPT train sequentially?", run=_one_pass),
    Example(
        name="parallel-training",
        lesson="A, slides 13-15; B",
        title="training against generation, timed",
        run=_parallel_training,
    ),
)
