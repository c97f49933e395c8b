"""The alphabet of byte-level BPE: one printable character for each of the 256 byte values, as GPT-2 chose them."""

from functools import lru_cache

_PRINTABLE = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))


@lru_cache(maxsize=1)
def byte_symbols() -> tuple[str, ...]:
    """Returns the 256 characters by byte value: printable Latin-1 stands for itself, the others count from U+0100."""
    symbols = {value: chr(value) for value in _PRINTABLE}
    others = [value for value in range(256) if value not in symbols]
    symbols.update({value: chr(256 + rank) for rank, value in enumerate(others)})
    return tuple(symbols[value] for value in range(256))


@lru_cache(maxsize=1)
def _bytes_by_symbol() -> dict[str, int]:
    return {symbol: value for value, symbol in enumerate(byte_symbols())}


def symbols_to_bytes(token: str) -> bytes:
    """Returns the bytes that a token of byte-level BPE stands for; a token outside the alphabet is its own UTF-8."""
    table = _bytes_by_symbol()
    try:
        return bytes([table[symbol] for symbol in token])
    except KeyError:
        return token.encode("utf-8")
