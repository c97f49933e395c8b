"""Train, look inside, plan, check, run and serve decoder-only GPTs.

`nextok.load(MODEL)` opens a model with its tokenizer, `nextok.describe(MODEL)` counts one, and
`nextok.quantize(MODEL, PRECISION)` packs one; importing the package loads nothing heavy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nextok.description import Description, describe
    from nextok.loaded import LoadedModel, load
    from nextok.quantization import QuantizationReport, quantize

__version__ = "0.1.0"
__all__ = [
    "Description",
    "LoadedModel",
    "QuantizationReport",
    "__version__",
    "describe",
    "load",
    "quantize",
]


def __getattr__(name: str) -> Any:
    if name in ("load", "LoadedModel"):
        from nextok import loaded  # noqa: PLC0415 - Numba is loaded with the first model, not with the package

        return getattr(loaded, name)
    if name in ("quantize", "QuantizationReport"):
        from nextok import quantization  # noqa: PLC0415 - Numba is loaded with the first model, not with the package

        return getattr(quantization, name)
    if name in ("describe", "Description"):
        from nextok import description  # noqa: PLC0415 - NumPy is loaded with the first model, not with the package

        return getattr(description, name)
    raise AttributeError(f"module 'nextok' has no attribute {name!r}")
