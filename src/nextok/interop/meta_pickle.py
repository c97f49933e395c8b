"""The character vocabulary beside a nanoGPT corpus, `meta.pkl`, read as data: no code is run, whatever the file holds.

A pickle is a program. Here it may use only the instructions that build dictionaries of numbers and text, each checked
before the first one runs, and nothing in it can name a class or a function.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

import tokenizers

from nextok.errors import TokenizerError
from nextok.tokenizer import Tokenizer

_MOST_BYTES = 4 << 20  # some 200,000 characters; the vocabularies that nanoGPT makes take kilobytes
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_GETS = ("MEMOIZE", "GET", "BINGET", "LONG_BINGET")
_TEXTS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE")
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1")
_DICTIONARIES = ("MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS")
_ALLOWED = frozenset({"PROTO", "FRAME", "STOP", *_PUTS, *_GETS, *_TEXTS, *_NUMBERS, *_DICTIONARIES})
_AGAIN = "Make it again with nanoGPT's prepare.py, or train here from the text itself."


def read_meta_pickle(path: Path) -> Tokenizer:
    """Returns the tokenizer of a `meta.pkl`: kind `char`, with the ids of the file and no end of text.

    Raises:
        TokenizerError: if the file is missing, too long, asks for code, or is not a dictionary of `vocab_size`, `itos`
            and `stoi` that gives every id from 0 on one character and back.
    """
    values = _plain_values(_bytes_of(path), path)
    if not isinstance(values, dict) or values.keys() != {"vocab_size", "itos", "stoi"}:
        raise TokenizerError(f"{path} is not nanoGPT's meta.pkl: it does not hold vocab_size, itos and stoi.", _AGAIN)
    ids = _ids_of(values, path)
    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[]))
    library.decoder = tokenizers.decoders.Fuse()
    return Tokenizer(library)


class _Unpickler(pickle.Unpickler):
    """Refuses what could name code, should the check of instructions ever have a hole."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it asks for an object from outside")


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TokenizerError(f"Cannot read the vocabulary {path}: {error.strerror or error}.") from error
    if len(data) > _MOST_BYTES:
        raise TokenizerError(f"{path} is no vocabulary of characters: it has more than {_MOST_BYTES:,} bytes.", _AGAIN)
    return data


def _plain_values(data: bytes, path: Path) -> Any:
    try:
        _check_instructions(data)
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a broken pickle can raise nearly anything
        raise TokenizerError(
            f"{path} cannot be read as nanoGPT's meta.pkl: {error or 'it is empty'}.", _AGAIN
        ) from error


def _check_instructions(data: bytes) -> None:
    """Refuses all but plain data, and memory numbered past the instructions: room is taken for every number below."""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name not in _ALLOWED:
            raise pickle.UnpicklingError(f"it holds more than numbers and text (the instruction {opcode.name})")
        if opcode.name in _PUTS and not 0 <= int(argument or 0) <= count:
            raise pickle.UnpicklingError(f"it numbers its values without order ({argument})")


def _ids_of(values: dict[str, Any], path: Path) -> dict[str, int]:
    """Returns the id of each character, checked to be one to one and without a gap."""
    size, character_of, id_of = values["vocab_size"], values["itos"], values["stoi"]
    whole = type(size) is int and isinstance(character_of, dict) and isinstance(id_of, dict) and len(id_of) == size > 0
    if not whole or character_of.keys() != set(range(size)) or not all(map(_is_character, id_of)):
        raise TokenizerError(f"{path} does not give each of its ids one character.", _AGAIN)
    if any(type(number) is not int or character_of.get(number) != text for text, number in id_of.items()):
        raise TokenizerError(f"{path} contradicts itself: stoi is not itos the other way round.", _AGAIN)
    return id_of


def _is_character(text: object) -> bool:
    return isinstance(text, str) and len(text) == 1 and not "\ud800" <= text <= "\udfff"
