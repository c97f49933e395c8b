"""What precision costs: perplexity of one model in nextok's int8 and int4, and in llama.cpp's q8_0 and q4_0.

Every position of the same windows of held-out text is scored by every variant, so differences are paired. Two kinds:

- as run: the program's own logits, its arithmetic included. Both programs round activations to 8 bits where weights are
  quantised (nextok on machines that multiply bytes). llama.cpp answers no prompt with log-probabilities, so it is asked
  for one token after each prefix, with the log-probabilities of the whole vocabulary.
- weights alone: the numbers that the packed weights stand for, computed in float32 by torch. What is left of the
  difference is the arithmetic.

Take a model that was trained in full precision, and text that it has not seen.

python benchmarks/quality.py MODEL TEXT [--positions 4096] [--threads 2] [--json FILE]
"""

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nextok import machine
from nextok.decode import token_logprobs
from nextok.engine import NumbaDecoder, PackedModel, Precision, kernels, pack_model
from nextok.interop import open_runnable
from nextok.interop.gguf_out import write_gguf
from nextok.model import filled
from peers import missing, version

RESULTS = Path(__file__).with_name("results")
LLAMA_CPP = ("f32", "q8_0", "q4_0")
OURS: tuple[Precision, ...] = ("fp32", "bf16", "int8", "int4")

Windows = list[NDArray[np.int64]]
Score = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""Ids of a window -> log-probability of each but the first, given those before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way to keep and run the model."""

    name: str
    """Program and precision."""
    bits: float
    """Bits of memory for each number of the weights."""
    as_run: Score | None
    """The program's own arithmetic."""
    weights_alone: Score | None
    """Its weights in float32."""


def ours(path: Path, precision: Precision, threads: int) -> Variant:
    """Returns nextok at a precision."""
    stored = open_runnable(path)
    packed = pack_model(stored.config, stored.arrays, precision)
    decoder = NumbaDecoder(packed, 1, threads=threads)

    def as_run(ids_T: NDArray[np.int64]) -> NDArray[np.float32]:
        logits_TV = decoder.prefill(0, ids_T[:-1], all_positions=True)
        scores_T = token_logprobs(logits_TV, ids_T[1:])
        decoder.release(0)
        return scores_T

    model = filled(stored.config, packed.weights().items())
    bits = 8 * packed.bytes / _numbers(packed)
    return Variant(name=f"nextok {precision}", bits=bits, as_run=as_run, weights_alone=_by_torch(model))


def llama_cpp(path: Path, precision: str, folder: Path, threads: int) -> Variant:
    """Returns llama.cpp at a precision; only its weights where xllamacpp is not installed."""
    stored, file = open_runnable(path), folder / f"{precision}.gguf"
    write_gguf(file, stored.config, stored.arrays, stored.tokenizer, precision)  # type: ignore[arg-type]
    rebuilt = open_runnable(file)
    model = filled(rebuilt.config, rebuilt.arrays)
    bits = 8 * file.stat().st_size / sum(each.numel() for each in model.parameters())
    run = None if missing("llama.cpp") else _by_llama_cpp(file, stored.config.vocab_size, threads)
    return Variant(name=f"llama.cpp {precision}", bits=bits, as_run=run, weights_alone=_by_torch(model))


def _numbers(packed: PackedModel) -> int:
    return sum(array.size for array in packed.weights().values())


def _by_torch(model: Any) -> Score:
    def score(ids_T: NDArray[np.int64]) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits_TV = model(torch.from_numpy(ids_T[None, :-1]))[0].numpy()
        return token_logprobs(logits_TV, ids_T[1:])

    return score


def _by_llama_cpp(file: Path, vocab_size: int, threads: int) -> Score:
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = str(file)
    options.n_ctx, options.n_parallel, options.fit_params, options.verbosity = 0, 1, False, -1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(options)

    def after(prefix: list[int], id: int) -> float:
        wanted = {"prompt": prefix, "max_tokens": 1, "temperature": 0, "logprobs": vocab_size, "cache_prompt": True}
        (step,) = server.handle_completions(wanted)["choices"][0]["logprobs"]["content"]
        return next(each["logprob"] for each in step["top_logprobs"] if each["id"] == id)

    def score(ids_T: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = ids_T.tolist()
        return np.array([after(ids[:t], ids[t]) for t in range(1, len(ids))], np.float32)

    return score


def windows_of(path: Path, text: Path, positions: int) -> Windows:
    """Returns windows of the text that fill the context, together about so many positions."""
    stored = open_runnable(path)
    assert stored.tokenizer is not None, f"{path} has no tokenizer"
    ids_N = stored.tokenizer.encode(text.read_text(encoding="utf-8"), unknown="replace")
    T = min(stored.config.context, positions + 1, len(ids_N))
    count = max(1, min(len(ids_N) // T, math.ceil(positions / (T - 1))))
    return [ids_N[number * T : (number + 1) * T] for number in range(count)]


def scores_of(score: Score | None, windows: Windows) -> NDArray[np.float64] | None:
    """Returns the log-probabilities of all positions of all windows."""
    if score is None:
        return None
    return np.concatenate([score(ids_T) for ids_T in windows]).astype(np.float64)


def rows_of(variants: Iterable[Variant], windows: Windows) -> Iterator[dict[str, Any]]:
    """Yields a row for each variant, the first of which is what the others are held against."""
    reference_N: NDArray[np.float64] | None = None
    for variant in variants:
        row: dict[str, Any] = {"what": variant.name, "bits": variant.bits}
        for kind, score in (("as_run", variant.as_run), ("weights_alone", variant.weights_alone)):
            scores_N = scores_of(score, windows)
            if scores_N is None:
                continue
            reference_N = scores_N if reference_N is None else reference_N
            row[kind] = {"perplexity": math.exp(-scores_N.mean()), **_difference(reference_N - scores_N)}
        yield row


def _difference(lost_N: NDArray[np.float64]) -> dict[str, float]:
    """Returns how much larger the perplexity is, in percent, and the standard error of that."""
    mean, error = lost_N.mean(), lost_N.std() / math.sqrt(len(lost_N))
    return {"percent": 100 * math.expm1(mean), "error_percent": 100 * math.exp(mean) * error}


def _line(row: dict[str, Any]) -> str:
    cells = [row["what"], f"{row['bits']:.2f}"]
    for kind in ("as_run", "weights_alone"):
        found = row.get(kind)
        cells += (
            [f"{found['perplexity']:.4f}", f"{found['percent']:+.2f} ± {found['error_percent']:.2f} %"]
            if found
            else ["", ""]
        )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Scores, prints a table, and keeps it in results/."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("model", type=Path, help="a run directory, a directory of transformers, or a GGUF file in f32")
    parser.add_argument("text", type=Path, help="held-out text")
    parser.add_argument("--positions", type=int, default=4096, help="about how many tokens to score")
    parser.add_argument("--threads", type=int, default=machine.usable_cores())
    parser.add_argument("--json", type=Path, default=RESULTS / "quality.json", help="where to keep the figures")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    windows = windows_of(options.model, options.text, options.positions)
    with tempfile.TemporaryDirectory() as folder:

        def variants() -> Iterator[Variant]:
            for precision in OURS:
                yield ours(options.model, precision, options.threads)
            for precision in LLAMA_CPP:
                yield llama_cpp(options.model, precision, Path(folder), options.threads)

        print(f"{sum(len(each) - 1 for each in windows):,} positions of {options.text.name}; kernels: {kernels()}")
        print("llama.cpp: " + ("weights alone" if missing("llama.cpp") else f"xllamacpp {version('llama.cpp')}"))
        print("\n| what | bits a weight | perplexity | against fp32 | weights alone | against fp32 |")
        print("|---|---|---|---|---|---|")
        rows = []
        for row in rows_of(variants(), windows):
            print(_line(row), flush=True)
            rows.append(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine.describe(), "model": str(options.model), "text": str(options.text), "rows": rows}
    options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
