"""Functions compiled for this machine: how Numba compiles and keeps them, and small arithmetic they share.

What is computed with them belongs to `nextok.engine` (decoding) and `nextok.fused` (training).
"""

from nextok.jit.compiling import cache_folder, compiled, features, kept, processor

__all__ = ["cache_folder", "compiled", "features", "kept", "processor"]
