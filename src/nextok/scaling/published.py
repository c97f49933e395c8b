"""What papers published, as data with its source: constants, tables, exponents, and where their runs lie.

Nothing here is fitted by this package but `BESIROGLU_SPREAD`, which says how. Losses are nats a token of the paper's
own text and vocabulary.
"""

import math

from nextok.scaling.covered import Covered
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.spread import ExponentSpread, FrontierSpread

# --- Hoffmann et al. 2022, "Training compute-optimal large language models" (arXiv 2203.15556)

CHINCHILLA_RUNS = Covered(N=(5.73e7, 1.618e10), D=(2.45e8, 3.18e11), C=(1.40e18, 1.30e22))
"""The 245 runs of the paper's figure 4, as Besiroglu et al. read them off."""

ISOFLOP_RUNS = Covered(C=(6e18, 3e21))
"""Approach 2's nine budgets."""

CHINCHILLA_TOKENS_PER_PARAMETER = 20.0
"""Of the 70B model the paper trained on 1.4T tokens; near what approaches 1 and 2 give over the paper's range."""

CHINCHILLA_3 = ParametricLaw(
    E=math.exp(0.5267228), A=math.exp(6.0073404), B=math.exp(6.0179186), alpha=0.33917084, beta=0.2849083
)
"""Approach 3, unrounded: the logarithms stand in the paper's TeX source."""

CHINCHILLA_3_PRINTED = ParametricLaw(E=1.69, A=406.4, B=410.7, alpha=0.34, beta=0.28)
"""Approach 3 as printed. Rounding beta from 0.2849 to 0.28 alone moves the data term by 13 % at 1e11 tokens."""

CHINCHILLA_TABLE_3 = (
    # N, FLOP, tokens by approach 1
    (400e6, 1.92e19, 8.0e9),
    (1e9, 1.21e20, 20.2e9),
    (10e9, 1.23e22, 205.1e9),
    (67e9, 5.76e23, 1.5e12),
    (175e9, 3.85e24, 3.7e12),
    (280e9, 9.90e24, 5.9e12),
    (520e9, 3.43e25, 11.0e12),
    (1e12, 1.27e26, 21.2e12),
    (10e12, 1.30e28, 216.2e12),
)

CHINCHILLA_TABLE_A3 = (
    # N, FLOP and tokens by approach 2, FLOP and tokens by approach 3
    (400e6, 1.84e19, 7.7e9, 2.21e19, 9.2e9),
    (1e9, 1.20e20, 20.0e9, 1.62e20, 27.1e9),
    (10e9, 1.32e22, 219.5e9, 2.46e22, 410.1e9),
    (67e9, 6.88e23, 1.7e12, 1.71e24, 4.1e12),
    (175e9, 4.54e24, 4.3e12, 1.26e25, 12.0e12),
    (280e9, 1.18e25, 7.1e12, 3.52e25, 20.1e12),
    (520e9, 4.19e25, 13.4e12, 1.36e26, 43.5e12),
    (1e12, 1.59e26, 26.5e12, 5.65e26, 94.1e12),
    (10e12, 1.75e28, 292.0e12, 8.55e28, 1425.5e12),
)

CHINCHILLA_1_SPREAD = ExponentSpread(a=0.50, low=0.488, high=0.502, pivot_flops=1.35e20)
"""Table 2: the 10th and 90th percentile of a. The pivot is the middle of the runs, in decades."""

CHINCHILLA_2_SPREAD = ExponentSpread(a=0.49, low=0.462, high=0.534, pivot_flops=1.34e20)
"""Table 2, likewise; the pivot is the middle of the nine budgets. Approach 3 printed 0.454 to 0.455, narrower than any
few hundred runs can support (Besiroglu et al. 2024), so it gets none."""

# --- Besiroglu, Erdil, Barnett and You 2024, "Chinchilla scaling: a replication attempt" (arXiv 2404.10102)

BESIROGLU = ParametricLaw(E=1.8172, A=482.01, B=2085.43, alpha=0.3478, beta=0.3658)
"""As printed. Another 0.5 % down in their own objective lies a = 0.5139 instead of 0.5126."""

BESIROGLU_SPREAD = FrontierSpread(pivot_flops=1e20, sd_log_n=0.0399, sd_a=0.0194, correlation=0.815)
"""Refitted here to 2,000 resamples of their 240 runs: how ln N* at 1e20 FLOP and the exponent vary together."""

# --- Muennighoff et al. 2023, "Scaling data-constrained language models" (arXiv 2305.16264)

MUENNIGHOFF_BASE = ParametricLaw(
    E=math.exp(0.6254804), A=math.exp(6.255414), B=math.exp(7.3049974), alpha=0.3526596, beta=0.3526596
)
"""Their refit of Chinchilla's law to C4, with one exponent for both; from the paper's code."""

MUENNIGHOFF_RUNS = Covered(N=(7e6, 9e9))
"""Up to 900B tokens; the paper gives no smallest D."""

# --- Kaplan et al. 2020, "Scaling laws for neural language models" (arXiv 2001.08361)

PETAFLOP_DAY = 8.64e19
KAPLAN_PARAMETERS = 1.3e9
"""N without embeddings at one petaFLOP-day."""
KAPLAN_A = 0.73
KAPLAN_RUNS = Covered(N=(768, 1.5e9), D=(2.2e7, 2.3e10))

# --- What machines and programs reach

PEAK_FLOPS_PER_S = {
    "a40": 149.7e12,
    "a100": 312e12,
    "b200": 2250e12,
    "h100": 989e12,
    "h200": 989e12,
    "l4": 121e12,
    "mi300x": 1307e12,
    "rtx3090": 71e12,
    "rtx4090": 165.2e12,
}
"""Dense bfloat16 products, from the vendors' data sheets."""

DEFAULT_MFU = 0.4
"""Model FLOPs utilisation: what training reaches of the peak, by exact FLOPs."""

PUBLISHED_MFU = (0.14, 0.43)
"""Lowest and highest that published runs imply."""
