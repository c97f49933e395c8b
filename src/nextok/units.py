"""Quantities as people write them: 124M, 3e18, 1.5GiB, 90s. Counts are powers of ten, bytes powers of two."""

import re
from fractions import Fraction

from nextok.errors import ConfigError

_COUNTS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
# A comma only parts groups of three: in much of the world 1,5M means one and a half million. Two digits of exponent
# and 64 characters hold any count there is.
_COUNT_PATTERN = re.compile(
    r"(?=.{1,64}\Z)\s*((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*([kKmMbBgGtT]?)\s*\Z",
    re.ASCII,
)

_ROUNDS_UP = 0.99995  # from this part of the next unit on a value prints as 1000.0 of its own: 999.96k is 1.00M


def parse_count(text: str) -> int:
    """Returns the whole number written as `124M`, `3e18`, `1_000` or `2.5k`, exactly.

    Raises:
        ConfigError: if the text is not a count, or not a whole one.
    """
    match = _COUNT_PATTERN.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a count.", "Write a number such as 5000, 20M or 1e9.")
    number, letter = match.groups()
    letter = letter if letter in _COUNTS else letter.swapcase()
    count = Fraction(number.replace("_", "").replace(",", "")) * _COUNTS[letter]
    if count.denominator != 1:
        raise ConfigError(f"{text!r} is not a whole number.", "Write a number such as 5000, 20M or 1e9.")
    return int(count)


def format_count(count: float) -> str:
    """Returns the count in three or four digits: 950, 107.0k, 124.4M, 1.56B."""
    for limit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= limit * _ROUNDS_UP:
            value = count / limit
            return f"{value:.2f}{letter}" if value < 10 else f"{value:.1f}{letter}"
    return f"{count:.0f}"


def format_bytes(size_bytes: float) -> str:
    """Returns the size in powers of 1,024: 512 B, 1.5 KiB, 474.7 MiB."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 * _ROUNDS_UP:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """Returns the time as 4.2 s, 3 min 05 s or 2 h 10 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def format_flops(flops: float) -> str:
    """Returns floating-point operations with an SI prefix: 621.3 kFLOP, 1.86 EFLOP."""
    for limit, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if flops >= limit * _ROUNDS_UP:
            value = flops / limit
            return f"{value:.2f} {prefix}FLOP" if value < 10 else f"{value:.1f} {prefix}FLOP"
    return f"{flops:.0f} FLOP"
