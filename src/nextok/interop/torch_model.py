"""From a directory to the torch model: weights into a `GPT` that holds nothing yet, one by one."""

from pathlib import Path

import torch

from nextok.interop.hf_in import stream_directory
from nextok.model import GPT, empty


def load_model(folder: Path) -> GPT:
    """Returns the model of a directory, float32 on the CPU, in evaluation mode (no dropout).

    Weights are copied one by one, so that the most memory taken is that of the model and its largest matrix.

    Raises:
        CheckpointError: as `nextok.interop.read_directory`.
    """
    config, arrays = stream_directory(folder)
    model = empty(config)
    left = dict(model.named_parameters())
    with torch.no_grad():
        for name, array in arrays:
            left.pop(name).copy_(torch.from_numpy(array))
    assert not left, f"never filled: {sorted(left)}"
    return model.eval()
