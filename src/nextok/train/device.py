"""Where the arithmetic runs: device and threads."""

import numba
import torch

from nextok import machine
from nextok.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """Returns the device of that name, or for `auto` the fastest there is.

    Raises:
        ConfigError: if this machine does not have it.
    """
    present = ["cpu"]
    if torch.backends.mps.is_available():
        present.insert(0, "mps")
    if torch.cuda.is_available():
        present.insert(0, "cuda")
    if name == "auto":
        return torch.device(present[0])
    kind, _, index = name.partition(":")
    if kind not in present or (index and not _has_device(kind, index)):
        raise ConfigError(f"device = {name!r} is not on this machine.", f"Use one of {', '.join(['auto', *present])}.")
    return torch.device(name)


def _has_device(kind: str, index: str) -> bool:
    return index.isdecimal() and int(index) < (torch.cuda.device_count() if kind == "cuda" else 1)


def use_threads(threads: int, sharing: int = 1) -> None:
    """Sets the threads of torch and Numba; 0: one a usable core, which a quota may make fewer than the machine has.

    Args:
        threads: How many.
        sharing: Processes on this machine that train together; without a number each gets its part of the cores.
    """
    threads = threads or max(1, machine.usable_cores() // sharing)
    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
