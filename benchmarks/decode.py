"""Decoding and prefill beside llama.cpp, CTranslate2 and transformers: the same weights, the same minutes, in pairs.

Weights are random, in GPT-2's shape, written once by nextok and read by all (`peers.py`). Each pair of programs is
measured in turns, A B, then B A, so that a machine that slows down slows both; what counts is the median of the rounds'
ratios. Then nextok alone: its share of the read speed, streams, long contexts, start, memory.

python benchmarks/decode.py [--quick] [--only decode prefill own start memory] [--json FILE]
"""

import argparse
import contextlib
import datetime
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from alone import memory_rows, own_rows, start_rows
from nextok import machine
from nextok.engine import kernels
from nextok.interop import write_directory
from nextok.interop.gguf_out import write_gguf
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig, preset_config
from nextok.tokenizer import gpt2_tokenizer
from peers import Peer, missing, version

RESULTS = Path(__file__).with_name("results")
PARTS = ("decode", "prefill", "own", "start", "memory")
PROMPT, NEW, PREFILL = 32, 128, 512

Row = dict[str, Any]
Key = tuple[str, str]  # program, precision

# (what, ours, theirs, target of the ratio)
DECODE_PAIRS: tuple[tuple[str, Key, Key, float], ...] = (
    ("decode fp32", ("nextok", "fp32"), ("llama.cpp", "f32"), 1.10),
    ("decode bf16", ("nextok", "bf16"), ("llama.cpp", "f16"), 1.15),
    ("decode int8", ("nextok", "int8"), ("llama.cpp", "q8_0"), 1.40),
    ("decode int4", ("nextok", "int4"), ("llama.cpp", "q4_0"), 1.40),
    ("decode fp32", ("nextok", "fp32"), ("CTranslate2", "fp32"), 1.2),
    ("decode int8", ("nextok", "int8"), ("CTranslate2", "int8"), 3.0),
    ("decode fp32", ("nextok", "fp32"), ("transformers", "fp32"), 2.4),
    ("decode int8", ("nextok", "int8"), ("transformers", "fp32"), 9.0),
    ("decode int4", ("nextok", "int4"), ("transformers", "fp32"), 13.0),
)
PREFILL_TARGET = 1.3
PREFILLS: tuple[Key, ...] = (
    *(("nextok", precision) for precision in ("fp32", "bf16", "int8", "int4")),
    *(("llama.cpp", precision) for precision in ("f32", "f16", "q8_0", "q4_0")),
    ("CTranslate2", "fp32"),
    ("CTranslate2", "int8"),
    ("transformers", "fp32"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    config: ModelConfig
    """The model."""
    rounds: int
    """Turns of each pair."""
    new: int
    """Tokens decoded."""
    prefill: int
    """Length of the prompt whose reading is measured."""
    seconds: float
    """Budget of each figure of nextok alone."""
    threads: int
    """Cores of every program."""


FULL = Scale(config=preset_config("gpt2"), rounds=7, new=NEW, prefill=PREFILL, seconds=3.0, threads=2)
QUICK = replace(FULL, config=replace(FULL.config, n_layers=1), rounds=1, new=8, prefill=64, seconds=0.05)


class Peers:
    """The processes, each started when it is first needed and kept until the end.

    Args:
        folder: Where the models are written.
        scale: The model and the cores.
    """

    def __init__(self, folder: Path, scale: Scale) -> None:
        self._folder, self._scale = folder, scale
        self._running: dict[Key, Peer] = {}
        self._exits = contextlib.ExitStack()
        self.about: dict[str, str] = {}
        self._tokenizer = gpt2_tokenizer()
        self._weights = weight_arrays(build(scale.config, 0))
        write_directory(self.directory, scale.config, self._weights, self._tokenizer)

    def __enter__(self) -> "Peers":
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    @property
    def directory(self) -> Path:
        """Returns the model as a directory of transformers."""
        return self._folder / "model"

    def get(self, key: Key) -> Peer:
        """Returns the running program with its model."""
        if key not in self._running:
            peer = Peer(*key, self._file(key), self._scale.threads)
            self._running[key] = self._exits.enter_context(peer)
            self.about[key[0]] = f"{key[0]} {version(key[0])}: {peer.about}"
        return self._running[key]

    def _file(self, key: Key) -> Path:
        program, precision = key
        if program == "llama.cpp":
            path = self._folder / f"{precision}.gguf"
            write_gguf(path, self._scale.config, self._weights, self._tokenizer, precision)  # type: ignore[arg-type]
            return path
        if program == "CTranslate2":
            from ctranslate2.converters import TransformersConverter

            path, kind = self._folder / f"ct2-{precision}", {"fp32": "float32", "int8": "int8"}[precision]
            TransformersConverter(str(self.directory)).convert(str(path), quantization=kind, force=True)
            return path
        return self.directory


def present(key: Key) -> bool:
    """Whether the program can run here; says so where it cannot."""
    lacks = missing(key[0])
    if lacks:
        print(f"{key[0]} {key[1]} is left out: {lacks} is not installed.", flush=True)
    return not lacks


def decode_rows(peers: Peers, scale: Scale) -> Iterator[Row]:
    """Yields a row for each pair, measured in turns."""
    prompt = prompt_of(scale.config, PROMPT)
    for what, ours, theirs, target in DECODE_PAIRS:
        if present(theirs):
            pair = [peers.get(ours), peers.get(theirs)]
            values = in_turns(pair, lambda peer: peer.ask("decode", prompt, scale.new), scale.rounds)
            yield {"what": what, "peer": " ".join(theirs), "target": target, "unit": "tokens/s", **ratio_of(*values)}


def prefill_rows(peers: Peers, scale: Scale) -> Iterator[Row]:
    """Yields a row for each program and precision, and one for the best of ours beside llama.cpp's best."""
    prompt, found = prompt_of(scale.config, scale.prefill), [key for key in PREFILLS if present(key)]
    running = [peers.get(key) for key in found]
    values = in_turns(running, lambda peer: peer.ask("prefill", prompt), scale.rounds)
    medians = {key: statistics.median(each) for key, each in zip(found, values, strict=True)}
    what = f"prefill {scale.prefill}"
    for key, value in medians.items():
        if key[0] == "nextok":
            yield {"what": f"{what} {key[1]}", "unit": "tokens/s", "ours": value}
        else:
            yield {"what": what, "peer": " ".join(key), "unit": "tokens/s", "theirs": value}
    rivals = [key for key in found if key[0] == "llama.cpp"]
    if rivals:
        ours, theirs = (max(keys, key=lambda key: medians[key]) for keys in (_of("nextok", found), rivals))
        best = [values[found.index(key)] for key in (ours, theirs)]
        row = {
            "what": f"{what}, best: {ours[1]}",
            "peer": " ".join(theirs),
            "target": PREFILL_TARGET,
            "unit": "tokens/s",
        }
        yield {**row, **ratio_of(*best)}


def _of(program: str, keys: list[Key]) -> list[Key]:
    return [key for key in keys if key[0] == program]


def in_turns(peers: list[Peer], measure: Callable[[Peer], float], rounds: int) -> list[list[float]]:
    """Returns the values of each program over the rounds, which go forth and back; one turn before does not count."""
    values: list[list[float]] = [[] for _ in peers]
    for peer in peers:
        measure(peer)
    for turn in range(rounds):
        order = range(len(peers)) if turn % 2 == 0 else reversed(range(len(peers)))
        for number in order:
            values[number].append(measure(peers[number]))
    return values


def ratio_of(ours: list[float], theirs: list[float]) -> Row:
    """Returns both medians, and the median, smallest and largest of the rounds' ratios."""
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return {
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "value": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def prompt_of(config: ModelConfig, tokens: int) -> list[int]:
    """Returns the same random ids each time; the last id, end of text, is not among them."""
    return np.random.default_rng(0).integers(0, config.vocab_size - 1, tokens).tolist()


def markdown(rows: list[Row], about: dict[str, str], scale: Scale) -> str:
    """Returns the rows as one table, under what was measured where and when."""
    system, config = machine.describe(), scale.config
    now = datetime.datetime.now().astimezone().isoformat(timespec="minutes")
    lines = [
        f"{now}, {system['processor']}, {scale.threads} threads of {system['cores']} cores, Python {system['python']}.",
        f"{config.n_layers} layers, width {config.d_model}, {config.vocab_size:,} tokens, random weights. "
        f"Decode: {scale.new} tokens after {PROMPT}, greedy. Medians of {scale.rounds} rounds in turns; in brackets "
        "the smallest and largest ratio.",
        "",
        *(f"- {each}" for each in about.values()),
        "",
        "| what | nextok | peer | its figure | ratio or value | target | met |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(row: Row) -> str:
    value = _number(row.get("value"))
    if "lowest" in row:
        value += f" ({row['lowest']:.2f} to {row['highest']:.2f})"
    target = row.get("target")
    wanted = "" if target is None else f"{'at most' if row.get('at_most') else 'at least'} {target:g}"
    met = "" if target is None else "yes" if is_met(row) else "no"
    cells = [row["what"], _number(row.get("ours")), row.get("peer", ""), _number(row.get("theirs")), value, wanted, met]
    return f"| {' | '.join(cells)} |"


def is_met(row: Row) -> bool:
    """Whether the value of a row reaches its target."""
    return row["value"] <= row["target"] if row.get("at_most") else row["value"] >= row["target"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Measures, prints the table, and keeps it in results/."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="a model of one layer and one round: to try the script")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts alone")
    parser.add_argument("--threads", type=int, default=min(2, machine.usable_cores()), help="cores of every program")
    parser.add_argument("--rounds", type=int, help="turns of each pair")
    parser.add_argument("--json", type=Path, default=RESULTS / "decode.json", help="where to keep the figures")
    options = parser.parse_args()
    scale = replace(QUICK if options.quick else FULL, threads=options.threads)
    scale = replace(scale, rounds=options.rounds or scale.rounds)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, Peers(Path(folder), scale) as peers:
        parts: dict[str, Callable[[], Iterator[Row]]] = {
            "decode": lambda: decode_rows(peers, scale),
            "prefill": lambda: prefill_rows(peers, scale),
            "own": lambda: own_rows(peers.directory, seconds=scale.seconds, threads=scale.threads),
            "start": lambda: start_rows(Path(folder), repeats=scale.rounds),
            "memory": lambda: memory_rows(peers.directory, threads=scale.threads),
        }
        for part in options.only:
            for row in parts[part]():
                print(_line(row), flush=True)
                rows.append(row)
        about = {"kernels": f"nextok's kernels: {kernels()}", **peers.about}
    table = markdown(rows, about, scale)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine.describe(), "threads": scale.threads, "about": about, "rows": rows}
    options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    options.json.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"\n{table}")


if __name__ == "__main__":
    main()
