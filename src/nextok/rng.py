"""Named random streams: every draw in the project is a function of a seed, a purpose and an index.

No generator is shared, so changing how often a run evaluates or samples never changes what it trains on, and a resumed
run needs no stored generator state. Each room makes its own generator (NumPy, torch) from a key.
"""

import hashlib
from typing import Literal

Purpose = Literal["init", "order", "dropout", "eval", "sample"]


def key(seed: int, purpose: Purpose, *index: int) -> int:
    """Returns a 64-bit key in [0, 2**64) that depends on nothing but its arguments.

    Keys of different seeds, purposes or indices are independent (BLAKE2b of their decimal spelling, so the value is the
    same on every machine and version).
    """
    spelled = "/".join([str(int(seed)), purpose, *(str(int(i)) for i in index)])
    return int.from_bytes(hashlib.blake2b(spelled.encode("ascii"), digest_size=8).digest(), "little")


def uniform(seed: int, purpose: Purpose, *index: int) -> float:
    """Returns a double in [0, 1) from `key`, with all 53 bits used."""
    return (key(seed, purpose, *index) >> 11) * 2.0**-53
