"""What the compiler may use on this machine, and where compiled kernels are kept.

Compiled once for a machine and a version of these sources: the folder's name holds the hash of the sources, because
Numba itself would only notice a change in the file of the function, not in those whose functions it calls.
"""

import functools
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core.registry import cpu_target

from nextok import machine

# Sums may be split over lanes and multiply-adds fused; infinities and NaN keep their meaning.
_FAST_MATH = {"reassoc", "contract", "arcp", "nsz"}


def multiplies_bytes() -> bool:
    """Whether the machine adds products of bytes in one instruction on 64 of them (AVX-512 VNNI)."""
    return "+avx512vnni" in _features() and "+avx512bw" in _features()


def multiplies_pairs() -> bool:
    """Whether the machine adds products of bfloat16 pairs in one instruction (AVX-512 BF16)."""
    return "+avx512bf16" in _features()


def kernels() -> str:
    """Returns the kind of kernels in use, for people."""
    if multiplies_bytes():
        return "AVX-512 with VNNI: quantised weights meet int8 inputs"
    if "+avx512f" in _features():
        return "AVX-512 without VNNI: quantised weights are widened to float32"
    if "+avx2" in _features():
        return "AVX2: quantised weights are widened to float32"
    return f"portable vectors ({_processor()}): quantised weights are widened to float32"


def cache_folder() -> Path:
    """Returns where kernels compiled from these very sources are kept; it need not exist yet.

    Raises:
        RuntimeError: if neither an environment variable nor the system says where the user's folder is.
    """
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.read_bytes())
    cache = Path(numba_config.CACHE_DIR) if numba_config.CACHE_DIR else machine.cache_folder()
    return cache / "kernels" / sources.hexdigest()[:16]


def is_compiled() -> bool:
    """Whether the kernels have been compiled before, so that the first call takes no seconds."""
    folder = _writable_cache_folder()
    return bool(folder) and any(Path(folder).rglob("forward.forward-*.nbi"))


def compiled(*, parallel: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that compiles a function on its first call, or takes it from the cache folder."""

    def decorate(function: Callable[..., Any]) -> Any:
        folder = _writable_cache_folder()
        before = numba_config.CACHE_DIR
        numba_config.CACHE_DIR = folder  # read once, when a function is decorated
        try:
            return numba.njit(
                cache=bool(folder),
                nogil=True,
                parallel=parallel,
                error_model="numpy",
                fastmath=_FAST_MATH,
                boundscheck=False,
            )(function)
        finally:
            numba_config.CACHE_DIR = before

    return decorate


@functools.cache
def _writable_cache_folder() -> str:
    """Returns the cache folder, or "" where nothing can be written there: then every process compiles for itself.

    Numba would go on to `__pycache__`, where it does not see that the source of a called function has changed.
    """
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):
        return ""
    return str(folder)


def _target() -> tuple[str, str, str]:
    """Returns the compiler's triple, processor and features: those of the machine, or what NUMBA_CPU_NAME limits."""
    return cpu_target.target_context.codegen().magic_tuple()


def _features() -> frozenset[str]:
    return frozenset(_target()[2].split(","))


def _processor() -> str:
    return _target()[1]
