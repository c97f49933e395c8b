"""The GPU check runs from end to end on a CPU, so that it is known to work where a GPU is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_check.py"


def run_check(*arguments: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_every_check_but_the_compiler_holds_on_a_cpu() -> None:
    names = ["agreement", "speed", "attention", "fused_adamw", "together"]
    code, found = run_check("--device", "cpu", "--tiny", "--only", ",".join(names))
    assert (code, found["ok"]) == (0, True), found
    checks = found["checks"]
    assert isinstance(checks, dict) and list(checks) == names
    for precision in ("fp32", "bf16"):
        assert 0 < checks["speed"][precision]["mfu"] < 1.5


@pytest.mark.slow
def test_the_compiled_step_is_the_plain_one() -> None:
    code, found = run_check("--device", "cpu", "--tiny", "--only", "compiled")
    assert (code, found["ok"]) == (0, True), found


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_ends_well() -> None:
    code, found = run_check()
    assert (code, list(found)) == (0, ["skipped"])
