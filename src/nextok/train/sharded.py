"""Weights, gradients and optimizer state cut over the processes (FSDP), whole again where somebody needs them whole.

Each block is gathered just before it is used and let go after. What a process holds of a tensor is a run of its rows:
torch's DTensor, cut along the first axis. Everything here also takes plain tensors, which are whole.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from nextok.checkpoint import Arrays, Piece, rows_of
from nextok.errors import CheckpointError
from nextok.model import GPT, filled
from nextok.train.processes import Processes


def shard(model: GPT, processes: Processes) -> None:
    """Cuts the model over the processes: block by block, and what is outside of the blocks together.

    Gradients are added over the processes, not averaged: losses are divided by the targets of the whole batch.
    """
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes.world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction


def is_sharded(model: torch.nn.Module) -> bool:
    """Returns whether the model is cut over processes."""
    return isinstance(model, FSDPModule)


@contextmanager
def only_looked_at(model: torch.nn.Module) -> Iterator[None]:
    """Runs forward passes that no backward pass follows; afterwards every process holds its rows again.

    Not in torch's inference mode, whose tensors FSDP would reuse for training, where they may not be.
    """
    with torch.no_grad():
        yield
    if isinstance(model, FSDPModule):
        model.reshard()


def whole(tensor: Tensor) -> Tensor:
    """Returns the whole of a tensor; if it is cut, all processes must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_weights(model: GPT, processes: Processes) -> dict[str, NDArray[np.float32]]:
    """Returns the weights by name to the leading process, nothing to the others; all must ask."""
    arrays = {}
    for name, parameter in model.named_parameters():
        weight = whole(parameter.detach())
        if processes.leads:
            arrays[name] = weight.to("cpu", torch.float32).numpy()
    return arrays


def whole_model(model: GPT, weights: Mapping[str, NDArray[np.float32]]) -> GPT:
    """Returns a model that one process can run by itself: this one, or one of the weights where it is cut."""
    return filled(model.config, weights.items()) if is_sharded(model) else model


def held(tensor: Tensor) -> Tensor:
    """Returns the part that this process holds; of a plain tensor, all of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def held_rows(like: Tensor, tensor: Tensor) -> Tensor:
    """Returns the rows of a whole tensor that this process holds of another one of its shape."""
    return tensor[slice(*_rows(like))] if isinstance(like, DTensor) else tensor


def piece_of(tensor: Tensor) -> Piece:
    """Returns the rows that this process holds, and at which row of the whole they begin."""
    return Piece(held(tensor.detach()).cpu().numpy(), _rows(tensor)[0])


def fill(tensor: Tensor, arrays: Arrays, name: str) -> None:
    """Copies the rows that this process holds of the named array into a tensor, reading no more than it has to.

    Raises:
        CheckpointError: if the array is missing or of another shape.
    """
    if name not in arrays:
        raise CheckpointError(f"The checkpoint has no {name}.", "Resume from another checkpoint.")
    first, last = _rows(tensor)
    shape, rows = rows_of(arrays, name, first, last)
    if shape != tuple(tensor.shape):
        raise CheckpointError(f"The checkpoint is of another model: {name} is {list(shape)}, not {list(tensor.shape)}.")
    with torch.no_grad():
        held(tensor).copy_(torch.from_numpy(rows))


def _rows(tensor: Tensor) -> tuple[int, int]:
    """Returns the first row held and the one after the last, as torch.chunk cuts them."""
    count = tensor.shape[0] if tensor.ndim else 1
    if not isinstance(tensor, DTensor):
        return 0, count
    mesh = tensor.device_mesh
    size = -(-count // mesh.size())
    first = min(mesh.get_local_rank() * size, count)
    last = min(first + size, count)
    assert tensor.to_local().shape[0] == last - first, f"{tensor.placements} is not cut along the first axis"
    return first, last
