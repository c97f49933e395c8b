"""How a function is compiled for this machine, and where the result is kept.

Compiled once for a machine and a version of the sources: the folder's name holds the hash of the function's whole room
and of this one, because Numba itself would only notice a change in the file of the function, not in those whose
functions it calls.
"""

import functools
import hashlib
import inspect
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


def compiled(*, parallel: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that compiles a function on its first call, or takes it from the cache folder."""

    def decorate(function: Callable[..., Any]) -> Any:
        folder = _writable_cache_folder(Path(inspect.getfile(function)).parent)
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


def cache_folder(room: Path) -> Path:
    """Returns where functions compiled from these very sources are kept; it need not exist yet.

    Args:
        room: Folder of the sources.

    Raises:
        RuntimeError: if neither an environment variable nor the system says where the user's folder is.
    """
    sources = hashlib.sha256()
    for path in [*sorted(room.glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))]:
        sources.update(path.read_bytes())
    cache = Path(numba_config.CACHE_DIR) if numba_config.CACHE_DIR else machine.cache_folder()
    return cache / "kernels" / sources.hexdigest()[:16]


def kept(room: Path, function: str) -> bool:
    """Whether a function (`file.name`) of the room has been compiled before, so that calling it takes no seconds."""
    folder = _writable_cache_folder(room)
    return bool(folder) and any(Path(folder).rglob(f"{function}-*.nbi"))


def features() -> frozenset[str]:
    """Returns what the compiler may use of this machine, such as `+avx2`; NUMBA_CPU_FEATURES can limit it."""
    return frozenset(_target()[2].split(","))


def processor() -> str:
    """Returns the compiler's name of this processor."""
    return _target()[1]


@functools.cache
def _writable_cache_folder(room: Path) -> str:
    """Returns the cache folder, or "" where nothing can be written there: then every process compiles for itself.

    Numba would go on to `__pycache__`, where it does not see that the source of a called function has changed.
    """
    try:
        folder = cache_folder(room)
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):
        return ""
    return str(folder)


def _target() -> tuple[str, str, str]:
    """Returns the compiler's triple, processor and features: those of the machine, or what NUMBA_CPU_NAME limits."""
    return cpu_target.target_context.codegen().magic_tuple()
