"""What choosing a token costs at GPT-2's vocabulary, beside a full sort of the logits and transformers' filters.

python benchmarks/sampling.py
"""

import numpy as np
import torch
from transformers import TopKLogitsWarper, TopPLogitsWarper

from nextok.benchmark import median_seconds
from nextok.decode import SamplingConfig, distribution, draw
from report import report

V = 50_257
CASES = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    "top-k 40": {"top_k": 40},
    "top-p 0.9": {"top_p": 0.9},
    "top-k 40, top-p 0.9": {"top_k": 40, "top_p": 0.9},
}


def main() -> None:
    """Measures and reports."""
    torch.set_num_threads(1)
    logits_V = np.random.default_rng(0).standard_normal(V).astype(np.float32) * 3
    np.zeros(1 << 22).sum()  # a process that has freed a large array once keeps its memory, as any with a model does
    logits_1V, ids_11 = torch.from_numpy(logits_V)[None], torch.zeros((1, 1), dtype=torch.long)
    peers = {
        "top-k 40": [TopKLogitsWarper(40)],
        "top-p 0.9": [TopPLogitsWarper(0.9)],
        "top-k 40, top-p 0.9": [TopKLogitsWarper(40), TopPLogitsWarper(0.9)],
    }
    sort_s = median_seconds(lambda: np.sort(logits_V), 51)
    rows = []
    for name, options in CASES.items():
        config = SamplingConfig(**options)
        row = {"what": name, "ms": 1e3 * median_seconds(lambda: draw(distribution(logits_V, config), 0.5), 51)}  # noqa: B023
        row["times a full sort"] = row["ms"] / (1e3 * sort_s)
        if name in peers:
            row["transformers ms"] = 1e3 * median_seconds(lambda: _filter(peers[name], ids_11, logits_1V), 51)  # noqa: B023
        rows.append(row)
    report("sampling", rows)


def _filter(warpers: list, ids_11: torch.Tensor, logits_1V: torch.Tensor) -> torch.Tensor:
    for warper in warpers:
        logits_1V = warper(ids_11, logits_1V)
    return torch.multinomial(torch.softmax(logits_1V, -1), 1)


if __name__ == "__main__":
    main()
