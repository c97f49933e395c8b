"""How fast one packed model is: prefill, and decoding at a position, for one stream or several side by side.

A decoded token counts from one call of `step` to the next, the choice of the largest logit included; sampling, text
and the server are not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nextok import machine
from nextok.benchmark.timing import Timing, time_work
from nextok.engine import NumbaDecoder, PackedModel, Precision
from nextok.engine.layout import packed_bytes
from nextok.spec import ModelConfig, count, parameter_shapes

STREAMS = (1, 8, 16)
_PREFILL = 512
_NEAR, _FAR = 50, 1000
_STEPS = 16
_FAR_ENOUGH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoding:
    """Decoding of so many streams around a position."""

    position: int
    """The middle of the steps measured: how many tokens are looked back at."""
    streams: int
    """Sequences decoded side by side."""
    tokens_per_s: float
    """Of all streams together, the median."""
    run: Timing
    """Of one run of steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """The figures of one precision."""

    precision: Precision
    """How the weights are kept."""
    streamed_bytes: int
    """Weights that each decoded token reads."""
    prefill_tokens: int
    """Length of the prompt."""
    prefill_tokens_per_s: float
    """Prompt tokens read a second, the median."""
    prefill_flops_per_s: float
    """Operations of that, counted by what has to be computed."""
    prefill: Timing
    """Of one prompt."""
    decoding: tuple[Decoding, ...]
    """One stream first."""

    @property
    def decode_bytes_per_s(self) -> float:
        """Returns the weights that one stream reads a second, near the start of the context."""
        return self.streamed_bytes * self.decoding[0].tokens_per_s

    def at(self, *, streams: int = 1, position: int | None = None) -> Decoding | None:
        """Returns the decoding of so many streams, at a position (None: near the start); None where not measured."""
        wanted = self.decoding[0].position if position is None else position
        return next((each for each in self.decoding if (each.streams, each.position) == (streams, wanted)), None)


def positions(config: ModelConfig) -> tuple[int, ...]:
    """Returns where decoding is measured: at 50, and at 1,000 or near the end of a context that is long enough."""
    near, far = max(1, min(_NEAR, config.context // 2)), min(_FAR, config.context - _STEPS)
    return (near, far) if far >= _FAR_ENOUGH * near else (near,)


def cases(config: ModelConfig, streams: Sequence[int] = STREAMS) -> list[tuple[int, int]]:
    """Returns (streams, position) of every figure of decoding, one stream first."""
    near, *further = positions(config)
    return [(1, near), *((1, far) for far in further), *((n, near) for n in streams if n > 1)]


def measure_speed(
    packed: PackedModel,
    *,
    seconds: float = 2.0,
    threads: int | None = None,
    streams: Sequence[int] = STREAMS,
    on_figure: Callable[[str], object] | None = None,
) -> Speed:
    """Returns prefill and decoding of a model.

    Args:
        packed: The model.
        seconds: Budget of each figure.
        threads: Cores to use. Default: those this process may use.
        streams: How many sequences to decode side by side; more than memory allows are left out.
        on_figure: Called with the name of each figure when it has been measured.
    """
    config, tell = packed.config, on_figure or (lambda _: None)
    decoder = NumbaDecoder(packed, max(_affordable(config, streams)), threads=threads)
    tokens = min(_PREFILL, config.context)
    ids_T = np.random.default_rng(0).integers(0, config.vocab_size, tokens)

    def read() -> None:
        decoder.prefill(0, ids_T)
        decoder.release(0)

    prefill = time_work(read, seconds)
    tell(f"{packed.precision}: prefill")
    decoding = []
    for n, position in cases(config, streams):
        if n <= decoder.n_slots:
            decoding.append(_measure_decoding(decoder, n, position, seconds))
        tell(f"{packed.precision}: {n} at {position}")
    return Speed(
        precision=packed.precision,
        streamed_bytes=streamed_bytes(packed),
        prefill_tokens=tokens,
        prefill_tokens_per_s=tokens / prefill.median_s,
        prefill_flops_per_s=prefill_flops(config, tokens) / prefill.median_s,
        prefill=prefill,
        decoding=tuple(decoding),
    )


def _measure_decoding(decoder: NumbaDecoder, streams: int, position: int, seconds: float) -> Decoding:
    """Returns the speed of runs of steps around a position, each begun from the same cache."""
    steps = min(_STEPS, position)
    slots, begin = list(range(streams)), position - steps // 2
    ids_T = np.random.default_rng(1).integers(0, decoder.vocab_size, begin)
    for slot in slots:
        decoder.release(slot)
        decoder.prefill(slot, ids_T)

    def run() -> None:
        ids = [0] * streams
        for _ in range(steps):
            ids = decoder.step(slots, ids).argmax(-1).tolist()
        for slot in slots:
            decoder.truncate(slot, begin)

    timing = time_work(run, seconds)
    for slot in slots:
        decoder.release(slot)
    return Decoding(position=position, streams=streams, tokens_per_s=streams * steps / timing.median_s, run=timing)


def _affordable(config: ModelConfig, streams: Sequence[int]) -> list[int]:
    """Returns the numbers of streams whose full caches fit into half of the free memory; one always does."""
    free, slot_bytes = machine.available_memory_bytes(), count(config).kv_cache_bytes_per_token * config.context
    return [1, *(n for n in streams if free is None or n * slot_bytes <= free // 2)]


def streamed_bytes(packed: PackedModel) -> int:
    """Returns the bytes of the matrices that a decoded token passes through: all but an embedding of its own."""
    shapes, matrices = parameter_shapes(packed.config), packed.plan.matrices
    through = {
        name: packed_bytes(int(record["kind"]), *shapes[name])
        for name, record in zip(packed.plan.names, matrices, strict=False)
        if packed.config.tied_head or name != "embed.tokens.weight"  # of which one row is read
    }
    return sum(through.values())


def prefill_flops(config: ModelConfig, tokens: int) -> int:
    """Returns the operations that a prompt needs: the head once, and attention to nothing that comes later."""
    head = config.vocab_size * config.d_model
    inside = count(config).matmul_parameters - head
    pairs = tokens * (tokens + 1) // 2
    attention = 2 * 2 * config.n_layers * config.n_heads * config.d_head * pairs
    return 2 * inside * tokens + 2 * head + attention
