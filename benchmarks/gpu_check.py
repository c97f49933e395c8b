"""Checks and times training on the GPU at hand, and prints one JSON object; without a GPU it says so and ends well.

python benchmarks/gpu_check.py [--device cpu --tiny] [--only agreement,attention]

Every speed is a share of the device's own matrix products, measured here, not of a table. `--device cpu --tiny` runs
the same checks on a CPU in seconds, so that the script is known to work before a GPU is rented.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from nextok import machine
from nextok.corpus import Batch
from nextok.model import GPT, build
from nextok.spec import ModelConfig, count, preset_config
from nextok.train import Processes, TrainConfig
from nextok.train.gradients import Gradients, distribute
from nextok.train.objective import Objective, choose_objective
from nextok.train.optim import Optimizer
from nextok.train.sharded import whole
from nextok.train.step import StepResult, train_step

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"fp32": 2e-4, "bf16": 2e-2}  # relative, of a loss: float32 sums in another order; bfloat16 has 8 bits


class Bench:
    """The device, the model and the batch that every check uses."""

    def __init__(self, device: torch.device, *, tiny: bool) -> None:
        self.device, self.tiny = device, tiny
        preset, self.batch_size = ("nano", 2) if tiny else ("gpt2", 8)
        self.config: ModelConfig = preset_config(preset, "modern")
        self.matrix = 256 if tiny else 8192
        self.repeats = 3 if tiny else 20

    def settings(self, **changes: Any) -> TrainConfig:
        """Returns training options; the batch is one piece."""
        return replace(TrainConfig(), batch_size=self.batch_size, **{"precision": "fp32", **changes})

    def model(self, device: torch.device | None = None) -> GPT:
        """Returns the same fresh model each time."""
        return build(self.config, 0).to(device or self.device).train()

    def batch(self) -> list[Batch]:
        """Returns the same batch of random ids each time."""
        draw = np.random.default_rng(0).integers(0, self.config.vocab_size, (self.batch_size, self.config.context + 1))
        return [Batch(inputs_BT=draw[:, :-1], targets_BT=draw[:, 1:], starts_B=np.arange(self.batch_size))]

    def stepper(
        self,
        model: GPT,
        settings: TrainConfig,
        objective: Objective | None = None,
        gradients: Gradients | None = None,
    ) -> Callable[[], StepResult]:
        """Returns what takes one training step of this model each time it is called."""
        optimizer, batch = Optimizer(model, settings), self.batch()
        objective = objective or choose_objective(model, settings, batch[0], [])
        return lambda: train_step(
            model,
            objective,
            optimizer,
            batch,
            lr=1e-3,
            first_sample=0,
            config=settings,
            gradients=Gradients() if gradients is None else gradients,
        )

    def seconds(self, work: Callable[[], object]) -> float:
        """Returns the median time of a piece of work, the device waited for."""
        times = []
        for _ in range(self.repeats + 2):
            begun = time.perf_counter()
            work()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            times.append(time.perf_counter() - begun)
        return statistics.median(times[2:])

    def peak_flops_per_s(self, precision: str) -> float:
        """Returns what large matrix products reach here."""
        left, right = (torch.randn(self.matrix, self.matrix, device=self.device, dtype=DTYPES[precision]) for _ in "ab")
        return 2 * self.matrix**3 / self.seconds(lambda: left @ right)


def agreement(bench: Bench) -> dict[str, Any]:
    """Three steps here and on the CPU, from the same weights on the same batch."""
    here, there = (bench.stepper(bench.model(device), bench.settings()) for device in (None, torch.device("cpu")))
    pairs = [(here().loss, there().loss) for _ in range(3)]
    error = max(abs(one - other) / other for one, other in pairs)
    return {"ok": error < TOLERANCE["fp32"], "relative_error": error, "losses": [one for one, _ in pairs]}


def speed(bench: Bench) -> dict[str, Any]:
    """Training in both precisions as a share of the measured matrix products."""
    found: dict[str, Any] = {"ok": True}
    tokens = bench.batch_size * bench.config.context
    for precision in DTYPES:
        step = bench.stepper(bench.model(), bench.settings(precision=precision))
        loss = step().loss
        step_seconds, peak = bench.seconds(step), bench.peak_flops_per_s(precision)
        flops_per_s = tokens / step_seconds * count(bench.config).training_flops_per_token
        found[precision] = {
            "first_loss": loss,
            "step_ms": 1000 * step_seconds,
            "tokens_per_s": tokens / step_seconds,
            "peak_flops_per_s": peak,
            "mfu": flops_per_s / peak,
        }
    error = abs(found["bf16"]["first_loss"] / found["fp32"]["first_loss"] - 1)
    return found | {"ok": error < TOLERANCE["bf16"], "relative_error": error}


def attention(bench: Bench) -> dict[str, Any]:
    """Which fused kernels torch has for causal attention in bfloat16, against the plain formula."""
    heads, width, positions = bench.config.n_heads, bench.config.d_head, bench.config.context
    draw = torch.Generator(bench.device).manual_seed(0)
    shape = (2, heads, positions, width)
    q, k, v = (torch.randn(shape, device=bench.device, dtype=torch.bfloat16, generator=draw) for _ in "qkv")
    with sdpa_kernel(SDPBackend.MATH):
        plain = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    kernels = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        except RuntimeError:
            continue
        kernels[backend.name.lower()] = float((fused - plain).abs().max())
    fast = bench.seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    return {
        "ok": "flash_attention" in kernels and all(error < 0.05 for error in kernels.values()),
        "largest_error": kernels,
        "ms": 1000 * fast,
    }


def compiled(bench: Bench) -> dict[str, Any]:
    """torch.compile: whether it works, computes the same, and what it gains."""
    settings = bench.settings(compile=True, precision="bf16")
    model, said = bench.model(), []
    begun = time.perf_counter()
    objective = choose_objective(model, settings, bench.batch()[0], [lambda event: said.append(str(event))])
    compile_seconds = time.perf_counter() - begun
    step, plain = (
        bench.stepper(model, settings, objective),
        bench.stepper(bench.model(), bench.settings(precision="bf16")),
    )
    error = abs(step().loss / plain().loss - 1)
    return {
        "ok": len(said) == 1 and error < TOLERANCE["bf16"],
        "relative_error": error,
        "compile_s": compile_seconds,
        "step_ms": 1000 * bench.seconds(step),
        "step_ms_without": 1000 * bench.seconds(plain),
        "said": said[1:],
    }


def fused_adamw(bench: Bench) -> dict[str, Any]:
    """AdamW in one kernel against the loop over tensors."""
    models = bench.model(), bench.model()
    ways = [
        torch.optim.AdamW(model.parameters(), fused=fused) for model, fused in zip(models, (True, False), strict=True)
    ]
    for model in models:
        for at, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 1e-2 * (1 + at % 3))
    for way in ways:
        way.step()
    pairs = zip(*(model.parameters() for model in models), strict=True)
    error = max(float((one - other).detach().abs().max()) for one, other in pairs)
    return {"ok": error < 1e-5, "largest_error": error, "ms": [1000 * bench.seconds(way.step) for way in ways]}


def together(bench: Bench) -> dict[str, Any]:
    """One process that goes all the ways of several (nccl on a GPU, gloo on a CPU): the same step, whole and cut."""
    expected = bench.stepper(bench.model(), bench.settings())
    losses = [expected().loss for _ in range(2)]
    processes = Processes(store=dist.HashStore())
    device = processes.connect(bench.device)
    found: dict[str, Any] = {"backend": dist.get_backend_config()}
    try:
        for parallel in ("ddp", "fsdp"):
            model, settings = bench.model(device), bench.settings(parallel=parallel)
            gradients = distribute(model, settings, processes)
            step = bench.stepper(model, settings, gradients=gradients)
            error = max(abs(step().loss / loss - 1) for loss in losses)
            finite = math.isfinite(float(whole(next(iter(model.parameters())).detach()).sum()))
            found[parallel] = {"relative_error": error, "step_ms": 1000 * bench.seconds(step), "finite": finite}
    finally:
        dist.destroy_process_group()
    good = all(found[parallel]["relative_error"] < TOLERANCE["fp32"] for parallel in ("ddp", "fsdp"))
    return found | {"ok": good}


CHECKS = {check.__name__: check for check in (agreement, speed, attention, compiled, fused_adamw, together)}


def main() -> int:
    """Runs the checks and returns 0 if all hold, or if there is no GPU."""
    parser = argparse.ArgumentParser(description="Check and time training on the GPU at hand.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU")
    parser.add_argument("--only", default=",".join(CHECKS), help="checks, with commas between")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"skipped": "There is no CUDA GPU on this machine; nothing was checked."}))
        return 0
    bench = Bench(torch.device(options.device), tiny=options.tiny)
    found = {name: _tried(CHECKS[name], bench) for name in options.only.split(",")}
    ok = all(each["ok"] for each in found.values())
    name = torch.cuda.get_device_name() if options.device == "cuda" else machine.describe()
    print(json.dumps({"ok": ok, "device": name, "torch": torch.__version__, "checks": found}, indent=2))
    return 0 if ok else 1


def _tried(check: Callable[[Bench], dict[str, Any]], bench: Bench) -> dict[str, Any]:
    try:
        return check(bench)
    except Exception as error:  # the other checks go on, and the report says what broke
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:1000]}


if __name__ == "__main__":
    sys.exit(main())
