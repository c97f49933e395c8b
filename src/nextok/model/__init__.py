"""The GPT in torch: one model whose parts a `ModelConfig` chooses, its hook points, and a decoder built from it.

Read `gpt.py` first, then `attention.py`. Training, files and foreign names are other rooms.
"""

from nextok.model.cached import TorchDecoder
from nextok.model.gpt import GPT, IGNORED, next_token_loss
from nextok.model.init import build, empty
from nextok.model.streamed import streamed_logits
from nextok.model.taps import Taps
from nextok.model.weights import filled, load_weights, weight_arrays

__all__ = [
    "GPT",
    "IGNORED",
    "Taps",
    "TorchDecoder",
    "build",
    "empty",
    "filled",
    "load_weights",
    "next_token_loss",
    "streamed_logits",
    "weight_arrays",
]
