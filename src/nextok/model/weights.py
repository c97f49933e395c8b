"""A model's weights as named NumPy arrays, and back: the form that files are written from and read into."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray

from nextok.errors import CheckpointError
from nextok.model.gpt import GPT
from nextok.model.init import empty
from nextok.spec import ModelConfig


def weight_arrays(model: GPT, *, trained: bool = False) -> dict[str, Float32[np.ndarray, "..."]]:
    """Returns the weights by native name, float32; views of the model's own memory where they are so already.

    Args:
        model: Any device.
        trained: Only those that training changes, where others are frozen.
    """
    weights = _parameters(model, trained=trained).items()
    return {name: weight.detach().to("cpu", torch.float32).numpy() for name, weight in weights}


def load_weights(model: GPT, arrays: Mapping[str, Float32[np.ndarray, "..."]], *, trained: bool = False) -> None:
    """Copies the arrays into the model, or into the weights that training changes.

    Raises:
        CheckpointError: if names or shapes are not the model's.
    """
    parameters = _parameters(model, trained=trained)
    if parameters.keys() != arrays.keys():
        odd = sorted(parameters.keys() ^ arrays.keys())[0]
        raise CheckpointError(f"The checkpoint is of another model: {odd!r} is in only one of the two.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            array = arrays[name]  # once: it may be read from disk each time
            if parameter.shape != array.shape:
                raise CheckpointError(
                    f"The checkpoint is of another model: {name} is {list(array.shape)}, not {list(parameter.shape)}."
                )
            parameter.copy_(torch.from_numpy(np.array(array)))


def filled(config: ModelConfig, arrays: Iterable[tuple[str, NDArray[Any]]]) -> GPT:
    """Returns the model with these weights, float32 on the CPU, in evaluation mode (no dropout).

    They are copied one by one, so that the most memory taken is that of the model and its largest matrix.

    Args:
        config: The model.
        arrays: Native name and array of all of `nextok.spec.parameter_shapes`, in any order.
    """
    model = empty(config)
    left = dict(model.named_parameters())
    with torch.no_grad():
        for name, array in arrays:
            left.pop(name).copy_(torch.from_numpy(array))
    assert not left, f"never filled: {sorted(left)}"
    return model.eval()


def _parameters(model: GPT, *, trained: bool) -> dict[str, torch.nn.Parameter]:
    named = dict(model.named_parameters())
    return {name: each for name, each in named.items() if each.requires_grad} if trained else named
