"""What the kernels make of a machine, and that every kind of machine gives the right logits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextok.engine import kernels, target
from nextok.jit import compiling

TESTS = Path(__file__).resolve().parents[1]
AVX2 = (
    "avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"
)
AVX512 = f"{AVX2} avx512f avx512bw avx512cd avx512dq avx512vl"
MACHINES = {
    "generic": ("", "portable vectors (generic): quantised weights are widened to float32"),
    "haswell": (AVX2, "AVX2: quantised weights are widened to float32"),
    "skylake-avx512": (AVX512, "AVX-512 without VNNI: quantised weights are widened to float32"),
}


def run(source: str, **environment: str) -> str:
    """Runs Python in a process of its own and returns what it prints."""
    shared = {} if "XDG_CACHE_HOME" in environment else {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    env = {**inherited, **shared, "PYTHONPATH": str(TESTS), **environment}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- machines

LOGITS = """
import numpy as np
from engine.models import config_of, packed, some_ids
from engine.twin import twin_logits
from nextok.engine import PRECISIONS, NumbaDecoder, kernels
from nextok.engine.target import multiplies_bytes, multiplies_pairs

assert not multiplies_bytes() and not multiplies_pairs()
for name in ("one more than a tile", "qwen3", "after the sum"):
    config = config_of(name)
    for precision in PRECISIONS:
        model, ids = packed(config, precision), some_ids(config, 12)
        expected = twin_logits(model, ids)
        decoder = NumbaDecoder(model, 2, cache="fp32")
        logits = decoder.prefill(0, ids, all_positions=True).copy()
        expected = twin_logits(model, ids, cache="fp32")  # nothing is rounded here, so that all agrees
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4, err_msg=f"{name} {precision}")
        for id, row in zip(ids, logits):
            np.testing.assert_array_equal(decoder.step([1], [id])[0], row, err_msg=f"{name} {precision}")
print(kernels())
"""


@pytest.mark.slow  # compiles everything once more where it has not been kept: up to a minute
@pytest.mark.parametrize(("processor", "features", "said"), [(name, *each) for name, each in MACHINES.items()])
def test_a_machine_that_can_do_less_gives_the_same_logits(processor: str, features: str, said: str) -> None:
    listed = [f"+{feature}" for feature in features.split()]
    if not {*listed} <= compiling.features():
        pytest.skip(f"needs a machine that can do what {processor} can")
    assert run(LOGITS, NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES=",".join(listed)) == said


@pytest.mark.parametrize(("processor", "features", "said"), [(name, *each) for name, each in MACHINES.items()])
def test_the_kernels_are_named_after_what_the_compiler_may_use(
    processor: str, features: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ",".join(f"+{feature}" for feature in features.split())
    monkeypatch.setattr(compiling, "_target", lambda: ("", processor, listed))
    assert (kernels(), target.multiplies_bytes(), target.multiplies_pairs()) == (said, False, False)


def test_bytes_and_pairs_are_multiplied_where_the_machine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    features = "+avx512f,+avx512bw,+avx512vnni,+avx512bf16"
    monkeypatch.setattr(compiling, "_target", lambda: ("", "znver4", features))
    assert kernels() == "AVX-512 with VNNI: quantised weights meet int8 inputs"
    assert target.multiplies_bytes() and target.multiplies_pairs()
    monkeypatch.setattr(compiling, "_target", lambda: ("", "znver4", features.replace("+avx512vnni", "-avx512vnni")))
    assert not target.multiplies_bytes()


def test_the_whole_model_is_compiled_once_for_a_machine() -> None:
    decode = """
from engine.models import config_of, packed
from nextok.engine import NumbaDecoder
from nextok.engine.forward import forward
for precision in ("fp32", "int4"):
    NumbaDecoder(packed(config_of("whole tiles"), precision)).prefill(0, [1, 2])
print(sum(forward.stats.cache_hits.values()), sum(forward.stats.cache_misses.values()))
"""
    first, second = run(decode), run(decode)
    assert second == "1 0", f"first {first}, then {second}: hits and misses"
