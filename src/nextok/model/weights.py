"""A model's weights as named NumPy arrays, and back: the form that files are written from and read into."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float32

from nextok.errors import CheckpointError
from nextok.model.gpt import GPT


def weight_arrays(model: GPT) -> dict[str, Float32[np.ndarray, "..."]]:
    """Returns the weights by native name, float32; views of the model's own memory where they are so already."""
    return {name: weight.detach().to("cpu", torch.float32).numpy() for name, weight in model.named_parameters()}


def load_weights(model: GPT, arrays: Mapping[str, Float32[np.ndarray, "..."]]) -> None:
    """Copies the arrays into the model.

    Raises:
        CheckpointError: if names or shapes are not the model's.
    """
    parameters = dict(model.named_parameters())
    if parameters.keys() != arrays.keys():
        odd = sorted(parameters.keys() ^ arrays.keys())[0]
        raise CheckpointError(f"The checkpoint is of another model: {odd!r} is in only one of the two.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != arrays[name].shape:
                raise CheckpointError(
                    f"The checkpoint is of another model: {name} is {list(arrays[name].shape)}, "
                    f"not {list(parameter.shape)}."
                )
            parameter.copy_(torch.from_numpy(np.array(arrays[name])))
