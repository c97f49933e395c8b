"""From the gradients of each process to those of the whole batch, the same on all before the optimizer steps.

Every process divides its summed loss by the valid targets of the whole batch (`step.py`), so gradients are added, never
averaged: targets that do not count would make a mean of means wrong.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from nextok.model import GPT
from nextok.train.config import TrainConfig
from nextok.train.processes import ALONE, Processes
from nextok.train.sharded import shard

_BUCKET_BYTES = 25 << 20  # torch's DistributedDataParallel has found this size


class Gradients:
    """Runs backward passes. Here nothing is left to add: one process, or sharded weights, which add while they go."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self.processes = processes

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Adds the gradients of a loss to those there.

        Args:
            loss: A share of the batch's loss.
            last: Whether no more of this batch follows, so that afterwards the gradients are those of all processes.
        """
        loss.backward()


@dataclass(slots=True)
class _Bucket:
    """Parameters whose gradients travel together."""

    parameters: list[torch.nn.Parameter]
    missing: int = 0
    """Gradients that the running backward pass has not made yet."""
    flat: Tensor | None = None
    sending: dist.Work | None = None


@dataclass(slots=True)
class _Pass:
    """A backward pass whose gradients are sent."""

    next_bucket: int = 0
    ready: set[int] = field(default_factory=set)


class SummedGradients(Gradients):
    """Adds up the gradients of processes that each hold the whole model, while the backward pass still goes on.

    What torch's DistributedDataParallel does, but in buckets that never change. That one reorders its buckets after the
    first step, and with three processes and more the order of additions follows an element's place in its bucket: a
    resumed run, whose first step is another one, would not have the bits of the run it goes on with.

    Args:
        processes: More than one, connected.
        parameters: Of the model that backward passes run through; those that are frozen are left out.
        bucket_bytes: Bytes that travel together, at least.
    """

    def __init__(
        self, processes: Processes, parameters: Iterable[torch.nn.Parameter], bucket_bytes: int = _BUCKET_BYTES
    ) -> None:
        super().__init__(processes)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._buckets = _buckets(trained[::-1], bucket_bytes)  # the last layers have their gradients first
        self._pass: _Pass | None = None
        for number, bucket in enumerate(self._buckets):
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, number=number: self._made(number))

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Adds the gradients of a loss; after the last one of a batch, those of all processes."""
        if not last:
            loss.backward()
            return
        self._pass = _Pass()
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
        try:
            loss.backward()
            self._send(len(self._buckets))
        finally:
            self._pass = None
        for bucket in self._buckets:
            _receive(bucket)

    def _made(self, number: int) -> None:
        """Sends a bucket whose last gradient has been made, after those before it: all processes keep one order."""
        if self._pass is None:
            return
        self._buckets[number].missing -= 1
        if not self._buckets[number].missing:
            self._pass.ready.add(number)
        last = self._pass.next_bucket
        while last in self._pass.ready:
            last += 1
        self._send(last)

    def _send(self, end: int) -> None:
        assert self._pass is not None
        for bucket in self._buckets[self._pass.next_bucket : end]:
            grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in bucket.parameters]
            bucket.flat = torch.cat([grad.reshape(-1) for grad in grads])
            bucket.sending = dist.all_reduce(bucket.flat, async_op=True)
        self._pass.next_bucket = max(end, self._pass.next_bucket)


def distribute(model: GPT, config: TrainConfig, processes: Processes) -> Gradients:
    """Makes the model one of all processes, before an optimizer holds its parameters; returns how gradients add up."""
    if processes.store is None:
        return Gradients()
    if config.parallel == "fsdp":
        shard(model, processes)
        return Gradients(processes)
    for parameter in model.parameters():  # made from one seed, but on machines that may round otherwise
        dist.broadcast(parameter.detach(), src=0)
    return SummedGradients(processes, model.parameters())


def _buckets(parameters: Sequence[torch.nn.Parameter], least_bytes: int) -> list[_Bucket]:
    """Returns the parameters in their order, cut into buckets of one type and about as many bytes."""
    buckets: list[_Bucket] = []
    room = 0
    for parameter in parameters:
        if room <= 0 or parameter.dtype != buckets[-1].parameters[0].dtype:
            buckets.append(_Bucket([]))
            room = least_bytes
        buckets[-1].parameters.append(parameter)
        room -= parameter.nbytes
    return buckets


def _receive(bucket: _Bucket) -> None:
    """Waits for the sums and gives every parameter its part of them, without a copy."""
    assert bucket.sending is not None and bucket.flat is not None
    bucket.sending.wait()
    sizes = [parameter.numel() for parameter in bucket.parameters]
    for parameter, part in zip(bucket.parameters, bucket.flat.split(sizes), strict=True):
        parameter.grad = part.view_as(parameter)
    bucket.sending = bucket.flat = None
