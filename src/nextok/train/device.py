"""Where the arithmetic runs: device, threads, and the compiled form of the model where it works."""

import warnings
from collections.abc import Sequence

import torch

from nextok import machine
from nextok.corpus import Batch
from nextok.errors import ConfigError
from nextok.model import GPT
from nextok.train.config import TrainConfig
from nextok.train.events import Hook, Message, emit
from nextok.train.step import Forward, autocast


def choose_device(name: str) -> torch.device:
    """Returns the device of that name, or for `auto` the fastest there is.

    Raises:
        ConfigError: if this machine does not have it.
    """
    present = ["cpu"]
    if torch.backends.mps.is_available():
        present.insert(0, "mps")
    if torch.cuda.is_available():
        present.insert(0, "cuda")
    if name == "auto":
        return torch.device(present[0])
    kind, _, index = name.partition(":")
    if kind not in present or (index and not _has_device(kind, index)):
        raise ConfigError(f"device = {name!r} is not on this machine.", f"Use one of {', '.join(['auto', *present])}.")
    return torch.device(name)


def _has_device(kind: str, index: str) -> bool:
    return index.isdecimal() and int(index) < (torch.cuda.device_count() if kind == "cuda" else 1)


def use_threads(threads: int, sharing: int = 1) -> None:
    """Sets torch's threads; 0: one a usable core, which a quota may make fewer than the machine has.

    Args:
        threads: How many.
        sharing: Processes on this machine that train together; without a number each gets its part of the cores.
    """
    torch.set_num_threads(threads or max(1, machine.usable_cores() // sharing))


def choose_forward(model: GPT, config: TrainConfig, batch: Batch, hooks: Sequence[Hook]) -> Forward:
    """Returns the model, compiled if that is asked for and works here; says so if it does not."""
    if not config.compile:
        return model
    device = next(model.parameters()).device
    inputs_BT = torch.from_numpy(batch.inputs_BT).to(device)
    emit(Message(text="Compiling the model; this can take a minute."), hooks)
    try:
        with warnings.catch_warnings(), autocast(device, config.precision):
            warnings.simplefilter("ignore")
            compiled = torch.compile(model)
            compiled(inputs_BT).sum().backward()
    except Exception as error:  # whatever a compiler can raise; the run works without it
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        emit(Message(text=f"torch.compile does not work here ({first_line}); going on without.", warning=True), hooks)
        return model
    finally:
        model.zero_grad(set_to_none=True)
    return compiled
