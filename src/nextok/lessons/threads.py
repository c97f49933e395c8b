"""torch's threads for the time of an example, given back after it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int | None = None) -> Iterator[None]:
    """Within the block torch may use other threads, this many from the start if given; after it, as many as before.

    The lessons' tensors are so small that two threads wait for each other longer than they work: beside other processes
    a training of 2 s on one thread took 16 s to 38 s on two.
    """
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)
