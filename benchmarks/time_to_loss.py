"""How soon a loss is reached, and which loss in a given time: the recipes beside nanoGPT's CPU recipe.

For each seed, in turns on the same machine: the reference loop to its end (`reference_loop.py`); a run of as many steps
as it takes to end at the reference's loss; a run for the reference's time; and both recipes' tokens a second. Seconds
are those of training steps alone, the reference's as well as ours; losses are those of the whole validation split in
windows of 64.

python benchmarks/time_to_loss.py TEXT --seeds 5
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nextok.benchmark import MATMULS, matmul_flops_per_s
from nextok.train.device import use_threads
from report import report

REFERENCE = Path(__file__).with_name("reference_loop.py")


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--recipe", default="speedrun")
    parser.add_argument(
        "--short-steps", type=int, default=120, help="of the run that is to end at the reference's loss"
    )
    arguments = parser.parse_args()
    use_threads(0)
    rows: list[dict[str, Any]] = [
        {"what": f"matrix products in {precision}", "GFLOP/s": matmul_flops_per_s(precision) / 1e9}
        for precision in MATMULS
    ]
    with tempfile.TemporaryDirectory() as folder:
        corpus = _prepared(arguments.text, Path(folder))
        _run(corpus, Path(folder) / "warm", arguments.recipe, steps=3, seed=0)  # compiles, once for a machine
        for seed in range(arguments.seeds):
            rows += _one_seed(arguments, corpus, Path(folder), seed)
    report("time_to_loss", rows + _means(rows))


def _one_seed(arguments: argparse.Namespace, corpus: Path, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Returns the rows of one seed; ratios are of runs minutes apart, since the machine's speed drifts."""
    reference = _reference(arguments.text, seed)
    short = _run(corpus, folder / f"short {seed}", arguments.recipe, steps=arguments.short_steps, seed=seed)
    steps = round(reference["seconds"] / short["seconds"] * arguments.short_steps)
    long = _run(corpus, folder / f"long {seed}", arguments.recipe, steps=steps, seed=seed)
    classic = _run(corpus, folder / f"classic {seed}", "classic", steps=200, seed=seed)
    return [
        {"seed": seed, "what": "reference", **_figures(reference)},
        {
            "seed": seed,
            "what": f"{arguments.recipe}, {arguments.short_steps} steps",
            **_figures(short),
            "share of the reference's time": short["seconds"] / reference["seconds"],
            "tokens/s beside the reference": short["tokens_per_s"] / reference["tokens_per_s"],
        },
        {
            "seed": seed,
            "what": f"{arguments.recipe}, the reference's time",
            **_figures(long),
            "share of the reference's time": long["seconds"] / reference["seconds"],
            "tokens/s beside the reference": long["tokens_per_s"] / reference["tokens_per_s"],
        },
        {
            "seed": seed,
            "what": "classic, 200 steps",
            **_figures(classic),
            "tokens/s beside the reference": classic["tokens_per_s"] / reference["tokens_per_s"],
        },
    ]


def _figures(result: dict[str, float]) -> dict[str, float]:
    return {"seconds": result["seconds"], "tokens/s": result["tokens_per_s"], "val loss": result["val_loss"]}


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns mean and standard deviation over the seeds of every figure."""
    found: list[dict[str, Any]] = []
    kinds = list(dict.fromkeys(row["what"] for row in rows if "seed" in row))
    for what in kinds:
        same = [row for row in rows if row["what"] == what]
        names = [name for name, value in same[0].items() if isinstance(value, float)]
        means = {name: statistics.mean(row[name] for row in same) for name in names}
        spread = {f"sd of {name}": statistics.stdev(row[name] for row in same) for name in names if len(same) > 1}
        found.append({"what": f"{what}, mean of {len(same)}", **means, **spread})
    return found


def _reference(text: str, seed: int) -> dict[str, float]:
    command = [sys.executable, str(REFERENCE), text, "--seed", str(seed)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def _prepared(text: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "nextok", "prepare", text, "--tokenizer", "char", "--out", str(folder / "corpus")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "corpus"


def _run(corpus: Path, out: Path, recipe: str, *, steps: int, seed: int) -> dict[str, float]:
    """Trains in a process of its own; returns seconds and speed of its steps, and its last loss."""
    options = {"preset": "nano", "recipe": recipe, "steps": steps, "seed": seed, "sample-tokens": 0}
    once = {"eval-every-steps": steps, "log-every-steps": steps}
    flags = [f"--{name}={value}" for name, value in (options | once).items()]
    command = [sys.executable, "-m", "nextok", "train", str(corpus), "--out", str(out), *flags]
    subprocess.run(command, check=True, capture_output=True)
    last = json.loads((out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    seconds = last["tokens"] / last["tokens_per_s"]
    return {"seconds": seconds, "tokens_per_s": last["tokens_per_s"], "val_loss": last["val_loss"]}


if __name__ == "__main__":
    main()
