"""How fast this machine can read memory and multiply, and how near a model's decoding and prefill come to that.

Comparisons with other programs are not here: `benchmarks/` runs those.
"""

from nextok.benchmark.limits import MATMULS, Limits, matmul_flops_per_s, measure_limits
from nextok.benchmark.reading import MemoryReader
from nextok.benchmark.result import Benchmark, count_figures, run_benchmark
from nextok.benchmark.speed import Decoding, Speed, measure_speed, prefill_flops, streamed_bytes
from nextok.benchmark.subject import Subject, find_subject
from nextok.benchmark.timing import Timing, median_seconds, time_work

__all__ = [
    "MATMULS",
    "Benchmark",
    "Decoding",
    "Limits",
    "MemoryReader",
    "Speed",
    "Subject",
    "Timing",
    "count_figures",
    "find_subject",
    "matmul_flops_per_s",
    "measure_limits",
    "measure_speed",
    "median_seconds",
    "prefill_flops",
    "run_benchmark",
    "streamed_bytes",
    "time_work",
]
