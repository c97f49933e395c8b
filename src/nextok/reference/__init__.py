"""The GPT in NumPy, written to be read: forward, loss, every gradient, Adam, cached decoding. An oracle, not an engine.

It shares names and shapes with `nextok.model` and nothing else; the two meet only in tests.
"""

from nextok.reference.adam import Adam
from nextok.reference.cached import NumpyDecoder
from nextok.reference.dialects import DIALECTS, Dialect, lesson_b
from nextok.reference.gpt import forward, logits, next_token_loss
from nextok.reference.grad import backward

__all__ = [
    "DIALECTS",
    "Adam",
    "Dialect",
    "NumpyDecoder",
    "backward",
    "forward",
    "lesson_b",
    "logits",
    "next_token_loss",
]
