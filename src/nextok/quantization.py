"""What fewer bits cost: a model packed in a precision, beside itself in float32, on text it was not trained on.

report = nextok.quantize("runs/shakespeare", "int4")
report.perplexity_change                # 0.021: two per cent more
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

from nextok.checkpoint import RunDirectory
from nextok.corpus import open_corpus
from nextok.decode import log_softmax_rows
from nextok.engine import NumbaDecoder, PackedModel, Precision
from nextok.errors import ConfigError, CorpusError
from nextok.loaded import LoadedModel, load
from nextok.packing import save_packed

OnTokens = Callable[[int], object]
_CHUNK = 128
"""Positions whose logits are held at once: 26 MB for GPT-2's vocabulary."""
_LEAST_TOKENS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantizationReport:
    """Size and quality of a model in a precision, against the same model in float32."""

    model: str
    """The model."""
    precision: Precision
    """How its matrices are kept."""
    path: str
    """The packed file."""
    bytes: int
    """Memory of the packed weights."""
    bytes_fp32: int
    """Memory of the weights in float32."""
    tokens: int
    """Tokens that were predicted."""
    perplexity: float
    """Of the packed model."""
    perplexity_fp32: float
    """Of the model in float32."""
    kl_nats: float
    """Mean divergence of the packed model's predictions from those in float32."""
    same_choice: float
    """Share of positions where both find the same token likeliest."""

    @property
    def perplexity_change(self) -> float:
        """Returns by what share the perplexity rises."""
        return self.perplexity / self.perplexity_fp32 - 1


def quantize(
    model: str | Path,
    precision: Precision,
    *,
    text: Path | None = None,
    limit_tokens: int = 16_384,
    on_tokens: OnTokens | None = None,
) -> QuantizationReport:
    """Packs the model beside its weights, where `nextok.load(model, precision=...)` finds it, and says what it costs.

    Args:
        model: A run directory, a directory of transformers or a GGUF file.
        precision: bf16, int8 or int4.
        text: Text to measure on, UTF-8. None: the run's own validation split.
        limit_tokens: Tokens to measure on at most.
        on_tokens: Called with the tokens measured since the last call.

    Raises:
        CheckpointError: if there is no model at the path, or it cannot be read.
        ConfigError: if there is no text to measure on, or a limit below 2.
        DiskError: if the packed file cannot be written.
    """
    if limit_tokens < _LEAST_TOKENS:
        raise ConfigError(f"limit_tokens = {limit_tokens} is below {_LEAST_TOKENS}.")
    loaded = load(model)
    ids_N = _held_out(Path(model), loaded, text, limit_tokens)
    exact, packed = loaded.packed("fp32"), loaded.packed(precision)
    measured = compare(exact, packed, ids_N, on_tokens)
    path = save_packed(Path(model), packed)
    return QuantizationReport(
        model=str(model),
        precision=precision,
        path=str(path),
        bytes=packed.bytes,
        bytes_fp32=exact.bytes,
        tokens=measured.tokens,
        perplexity=math.exp(measured.nats / measured.tokens),
        perplexity_fp32=math.exp(measured.nats_exact / measured.tokens),
        kl_nats=measured.divergence / measured.tokens,
        same_choice=measured.same / measured.tokens,
    )


@dataclass(kw_only=True, slots=True)
class Comparison:
    """Sums over the tokens that two models predicted."""

    tokens: int = 0
    nats: float = 0.0
    nats_exact: float = 0.0
    divergence: float = 0.0
    same: int = 0


def compare(
    exact: PackedModel, packed: PackedModel, ids_N: Int64[np.ndarray, " N"], on_tokens: OnTokens | None = None
) -> Comparison:
    """Returns how two forms of one model predict a text, in windows of the context that start with nothing before."""
    total = Comparison()
    decoders = NumbaDecoder(exact), NumbaDecoder(packed)
    for exact_TV, packed_TV, targets_T in _predictions(decoders, ids_N):
        rows_T = np.arange(len(targets_T))
        total.tokens += len(targets_T)
        total.nats_exact -= float(exact_TV[rows_T, targets_T].sum(dtype=np.float64))
        total.nats -= float(packed_TV[rows_T, targets_T].sum(dtype=np.float64))
        total.divergence += float((np.exp(exact_TV) * (exact_TV - packed_TV)).sum(dtype=np.float64))
        total.same += int((exact_TV.argmax(axis=1) == packed_TV.argmax(axis=1)).sum())
        if on_tokens is not None:
            on_tokens(len(targets_T))
    return total


def _predictions(
    decoders: tuple[NumbaDecoder, NumbaDecoder], ids_N: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]]:
    """Yields log-probabilities of both models `[T, V]`, and what came, a chunk at a time."""
    context = decoders[0].context
    for begin in range(0, len(ids_N) - 1, context):
        window_T = ids_N[begin : begin + context + 1]
        for decoder in decoders:
            decoder.release(0)
        for first in range(0, len(window_T) - 1, _CHUNK):
            targets_T = window_T[first + 1 : first + _CHUNK + 1]
            inputs_T = window_T[first : first + len(targets_T)]
            exact_TV, packed_TV = (
                log_softmax_rows(decoder.prefill(0, inputs_T, all_positions=True)) for decoder in decoders
            )
            yield exact_TV, packed_TV, targets_T


def _held_out(model: Path, loaded: LoadedModel, text: Path | None, limit: int) -> NDArray[np.int64]:
    if text is not None:
        ids_N = loaded.ids(_read(text))[: limit + 1]
    else:
        folder = RunDirectory(model).corpus
        if not folder.is_dir():
            raise ConfigError(f"{model} has no text of its own to measure on.", "Give some with --text FILE.")
        split = open_corpus(folder).validation
        if split is None:
            raise ConfigError(f"The corpus of {model} has no validation split.", "Give text with --text FILE.")
        ids_N = split.tokens(0, min(len(split), limit + 1))
    if len(ids_N) < _LEAST_TOKENS:
        raise ConfigError(f"The text has {len(ids_N)} tokens, too few to measure on.")
    return ids_N


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CorpusError(f"Cannot read {path}: {reason}.") from error
