"""The Numba decoder: packed weights, quantisation, kernels and a cache of keys and values, on the CPU, without torch.

The uncached model and other devices are `nextok.model`; choosing tokens is `nextok.decode`.
"""

from nextok.engine.decoder import NumbaDecoder
from nextok.engine.packed import PackedModel, pack_model
from nextok.engine.packed_file import open_packed, write_packed
from nextok.engine.plan import PRECISIONS, Precision
from nextok.engine.target import is_compiled, kernels

__all__ = [
    "PRECISIONS",
    "NumbaDecoder",
    "PackedModel",
    "Precision",
    "is_compiled",
    "kernels",
    "open_packed",
    "pack_model",
    "write_packed",
]
