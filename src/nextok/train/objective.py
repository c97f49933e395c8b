"""What a step minimises, computed in the way that suits the device.

On a CPU the fused loss (`nextok.fused`); elsewhere, and for models that it does not fit or that are cut over processes,
the model itself, compiled if that is asked for and works.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Literal

import torch
from torch import Tensor

from nextok import fused, rng
from nextok.corpus import Batch
from nextok.jit import features
from nextok.model import GPT, next_token_loss
from nextok.spec import ModelConfig
from nextok.train.config import TrainConfig
from nextok.train.events import Hook, Message, emit
from nextok.train.sharded import is_sharded

_COMPILING = "Compiling for this machine, once: about half a minute."

Objective = Callable[[Batch, int, float], Tensor]
"""(piece of a batch, number of its first sample, scale) -> scale times the summed loss of its targets, in nats"""


def resolve_precision(
    config: TrainConfig, model: ModelConfig, device: torch.device, *, cut: bool = False
) -> Literal["fp32", "bf16"]:
    """Returns the dtype of matrix products: `auto` is bf16 where the device multiplies it fast.

    Args:
        config: What was asked for.
        model: On a CPU only the fused loss gains by bf16.
        device: Where it runs.
        cut: Whether the weights will be cut over processes.
    """
    if config.precision != "auto":
        return config.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    fast = device.type == "cpu" and not {"+avx512bf16", "+amx-bf16"}.isdisjoint(features())
    return "bf16" if fast and fused.fits(model) and not cut else "fp32"


def uses_fused(model: ModelConfig, config: TrainConfig, device: torch.device, *, cut: bool) -> bool:
    """Whether a run minimises the fused loss, and not the model's own."""
    return device.type == "cpu" and fused.fits(model) and not config.compile and not cut


def get_ready(
    model: ModelConfig, config: TrainConfig, device: torch.device, hooks: Sequence[Hook], *, cut: bool
) -> None:
    """Compiles what a run of this precision on this device will need, if it has never been compiled here."""
    if uses_fused(model, config, device, cut=cut):
        precision: Literal["fp32", "bf16"] = "bf16" if config.precision == "bf16" else "fp32"
        fused.make_ready(precision, lambda: emit(Message(text=_COMPILING), hooks))


def choose_objective(model: GPT, config: TrainConfig, batch: Batch, hooks: Sequence[Hook]) -> Objective:
    """Returns the loss of a piece of a batch, ready to be differentiated; says so if it could not be compiled.

    Args:
        model: In training mode.
        config: Precision, resolved; seed of dropout; whether to compile.
        batch: One like those to come.
        hooks: Hear what is going on.
    """
    device = next(model.parameters()).device
    forward = _compiled(model, config, batch, hooks) if config.compile else model
    plain = _plain(model, forward, config)
    if uses_fused(model.config, config, device, cut=is_sharded(model)):
        get_ready(model.config, config, device, hooks, cut=False)
        return _fused(model, config, plain)
    return plain


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Returns the context in which matrix products run in the chosen precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def _plain(model: GPT, forward: Callable[[Tensor], Tensor], config: TrainConfig) -> Objective:
    device = next(model.parameters()).device

    def loss_of(piece: Batch, first_sample: int, scale: float) -> Tensor:
        stream = _dropout_stream(config.seed, first_sample) if model.config.dropout else nullcontext()
        with stream, autocast(device, config.precision):
            logits_BTV = forward(torch.from_numpy(piece.inputs_BT).to(device))
            targets_BT = torch.from_numpy(piece.targets_BT).to(device)
            return next_token_loss(logits_BTV, targets_BT, reduction="sum") * scale

    return loss_of


def _fused(model: GPT, config: TrainConfig, plain: Objective) -> Objective:
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32

    def loss_of(piece: Batch, first_sample: int, scale: float) -> Tensor:
        if model.is_changed:  # the fused form has no hook points
            return plain(piece, first_sample, scale)
        drops = model.config.dropout > 0 and model.training
        return fused.fused_loss(
            model,
            torch.from_numpy(piece.inputs_BT),
            torch.from_numpy(piece.targets_BT),
            dtype=dtype,
            scale=scale,
            dropout=fused.Dropout(model.config.dropout, config.seed, first_sample) if drops else None,
        )

    return loss_of


def _compiled(model: GPT, config: TrainConfig, batch: Batch, hooks: Sequence[Hook]) -> Callable[[Tensor], Tensor]:
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


@contextmanager
def _dropout_stream(seed: int, sample: int) -> Iterator[None]:
    """Draws dropout from (seed, position), so that a resumed run drops what the whole run would have."""
    with torch.random.fork_rng():
        torch.manual_seed(rng.key(seed, "dropout", sample))
        yield
