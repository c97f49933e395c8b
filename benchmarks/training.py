"""Training speed as a share of this machine's own matrix products, at the sizes people here train.

python benchmarks/training.py
"""

import dataclasses

import numpy as np

from nextok.benchmark import MATMULS, matmul_flops_per_s, median_seconds
from nextok.corpus import Batch
from nextok.model import build
from nextok.spec import count, preset_config
from nextok.train import TrainConfig
from nextok.train.device import use_threads
from nextok.train.objective import choose_objective
from nextok.train.optim import Optimizer
from nextok.train.step import train_step
from report import report

CASES = (("nano", "classic", 12), ("nano", "classic", 32), ("nano", "modern", 32), ("quick", "modern", 16))


def main() -> None:
    """Measures and reports."""
    use_threads(0)
    rows = []
    for preset, recipe, batch_size in CASES:
        for precision in MATMULS:
            peak = matmul_flops_per_s(precision)
            tokens_per_s = _tokens_per_s(preset, recipe, batch_size, precision)
            flops_per_s = tokens_per_s * count(preset_config(preset, recipe)).training_flops_per_token
            rows.append(
                {
                    "what": f"{preset} {recipe}, {batch_size} sequences, {precision}",
                    "tokens/s": round(tokens_per_s),
                    "GFLOP/s": flops_per_s / 1e9,
                    "matmul peak GFLOP/s": peak / 1e9,
                    "share of the peak": flops_per_s / peak,
                }
            )
    report("training", rows)


def _tokens_per_s(preset: str, recipe: str, batch_size: int, precision: str) -> float:
    config = preset_config(preset, recipe)
    settings = dataclasses.replace(TrainConfig(), precision=precision)
    model = build(config, 0).train()
    optimizer = Optimizer(model, settings)
    window_BT = np.random.default_rng(0).integers(0, config.vocab_size, (batch_size, config.context + 1))
    batch = [Batch(inputs_BT=window_BT[:, :-1], targets_BT=window_BT[:, 1:], starts_B=np.arange(batch_size))]

    objective = choose_objective(model, settings, batch[0], [])

    def step() -> None:
        train_step(model, objective, optimizer, batch, lr=1e-3, first_sample=0, config=settings)

    return batch_size * config.context / median_seconds(step, 15)


if __name__ == "__main__":
    main()
