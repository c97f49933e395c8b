"""Compiling all kernels before they are needed, in a process of its own.

Not for speed alone: what Numba has just compiled can differ from what it reads back from its folder in the last bit of
a sum, so that the first run on a machine would not be the run that a resumed one goes on with. Where nothing can be
kept, every process compiles for itself, and all of them alike.

`python -m nextok.fused.ready bf16` compiles, and leaves a mark beside the kernels.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from nextok.fused.forward import fused_loss
from nextok.fused.ops import Dropout
from nextok.jit import cache_folder
from nextok.model import build
from nextok.spec import ModelConfig

Precision = Literal["fp32", "bf16"]
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_LONGEST_S = 600
_TINY = {"n_layers": 1, "d_model": 8, "n_heads": 2, "context": 4, "vocab_size": 5, "dropout": 0.5}
_KINDS: tuple[dict[str, object], ...] = ({}, {"norm": "rmsnorm", "position": "rope", "qk_norm": True, "mlp": "swiglu"})


def make_ready(precision: Precision, on_compile: Callable[[], object] = lambda: None) -> None:
    """Makes sure that the kernels of this precision are on disk, if they can be.

    Args:
        precision: Of matrix products.
        on_compile: Called if there is something to compile, which takes about half a minute.
    """
    mark = _mark(precision)
    if mark is None or mark.exists():
        return
    on_compile()
    command = [sys.executable, "-m", "nextok.fused.ready", precision]
    try:
        subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LONGEST_S)
    except (OSError, subprocess.SubprocessError):
        return  # then they are compiled where they are called


def main(precision: Precision) -> None:
    """Compiles every kernel of this precision by using it, and leaves the mark."""
    ids_BT = torch.tensor([[0, 1, 2, 3]])
    for kind in _KINDS:
        model = build(ModelConfig(**{**_TINY, **kind}), 0)  # type: ignore[arg-type]
        dropout = Dropout(0.5, 0, 0)
        fused_loss(model, ids_BT, ids_BT, dtype=_DTYPES[precision], dropout=dropout).backward()
    mark = _mark(precision)
    if mark is not None and mark.parent.is_dir():
        mark.touch()


def _mark(precision: Precision) -> Path | None:
    try:
        return cache_folder(Path(__file__).parent) / f"ready-{precision}"
    except RuntimeError:  # no place for anything of this user
        return None


if __name__ == "__main__":
    main("bf16" if sys.argv[1] == "bf16" else "fp32")
