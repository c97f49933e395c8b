"""What a person is told before the Numba engine compiles for the first time."""

import sys

from nextok.backends import Backend
from nextok.engine import is_compiled, kernels


def announce_compiling(backend: Backend = "numba") -> None:
    """Says that compiling takes a while, if the engine may be used and has not been compiled on this machine."""
    if backend != "torch" and not is_compiled():
        print(f"Compiling once for this machine, about 15 seconds ({kernels()}).", file=sys.stderr, flush=True)
