"""Logits of a model whose weights pass by one at a time: a layer is in memory, not the model.

The modules are those of `gpt.py`, each filled, run and dropped before the next is read. For comparing files that are
larger than the memory to spare; for anything else, load the model.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import nn

from nextok.model.gpt import Block, Embedding
from nextok.model.norm import make_norm
from nextok.model.rotary import rotation
from nextok.model.taps import NO_TAPS
from nextok.spec import ModelConfig

Arrays = Iterable[tuple[str, NDArray[Any]]]
Module = TypeVar("Module", bound=nn.Module)


def streamed_logits(
    config: ModelConfig, arrays: Arrays, ids_BT: Int64[np.ndarray, "B T"]
) -> Float32[np.ndarray, "B T V"]:
    """Returns the logits of every position, those of `GPT.forward` on the filled model.

    Memory: the token embedding, one block, the head where it is not tied, and the logits.

    Args:
        config: The model.
        arrays: Native name and array of all its weights, in the order of `nextok.spec.parameter_shapes`.
        ids_BT: Token ids, at most the context of them a row.
    """
    ids, cap = torch.from_numpy(ids_BT), config.logit_softcap
    positions_T = torch.arange(ids.shape[1])
    rotate = rotation(positions_T, config.d_head, config.rope_base) if config.position == "rope" else None
    with torch.inference_mode():
        parts = _parts(arrays)
        embed = _filled(Embedding(config), next(parts)[1])
        x_BTD, weight_VD = embed(ids, positions_T, NO_TAPS), embed.tokens.weight
        for name, weights in parts:
            if name == "head":
                weight_VD = torch.from_numpy(np.asarray(weights["weight"], np.float32))
            elif name == "final_norm":
                x_BTD = _filled(make_norm(config, config.d_model), weights)(x_BTD)
            else:
                x_BTD = _filled(Block(config, layer=0), weights)(x_BTD, rotate, None, NO_TAPS)
        logits_BTV = F.linear(x_BTD, weight_VD)
        return (cap * torch.tanh(logits_BTV / cap) if cap else logits_BTV).numpy()


def _parts(arrays: Arrays) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yields the weights of one part at a time (`embed`, `blocks.0`, ..., `final_norm`, `head`), by names within it."""
    for part, group in itertools.groupby(arrays, lambda item: _part(item[0])):
        yield part, {name.removeprefix(f"{part}."): array for name, array in group}


def _part(name: str) -> str:
    pieces = name.split(".")
    return ".".join(pieces[:2]) if pieces[0] == "blocks" else pieces[0]


def _filled(module: Module, weights: dict[str, NDArray[Any]]) -> Module:
    left = dict(module.named_parameters())
    while weights:  # emptied, since the caller still holds it while the next part is read
        name, array = weights.popitem()
        left.pop(name).copy_(torch.from_numpy(np.asarray(array, np.float32)))
    assert not left, f"never filled: {sorted(left)}"
    return module.eval()
