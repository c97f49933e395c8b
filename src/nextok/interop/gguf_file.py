"""A GGUF file as metadata and tensors, checked as a whole before one weight is read; weights are read one at a time.

The header is read here and not by the package `gguf`, whose reader trusts every count in the file: one number makes it
fill the memory. That package turns blocks of quantised numbers into float32. What names and keys mean is in
`gguf_names.py` and `gguf_fields.py`.
"""

import math
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextok.errors import CheckpointError, MissingExtraError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_FLOAT32, _TEXT, _ARRAY = 6, 8, 9
_DEFAULT_ALIGNMENT = 32
_MOST_AXES = 4
# Far above every model that exists, and small enough that a file made to hurt fills no memory.
_MOST_ENTRIES = 1 << 16
_MOST_TEXTS = 1 << 22
_LONGEST_TEXT = 1 << 24
_LONGEST_NAME = 256
_PIECE_BLOCKS = 1 << 14
_PIECE_BYTES = 1 << 20
_AGAIN = "Download or convert it again."


class Encoding(NamedTuple):
    """How the numbers of a tensor are stored: in blocks along its rows."""

    name: str
    block: int
    """Numbers in a block."""
    size: int
    """Bytes of a block."""


ENCODINGS = {
    0: Encoding("F32", 1, 4),
    1: Encoding("F16", 1, 2),
    30: Encoding("BF16", 1, 2),
    2: Encoding("Q4_0", 32, 18),
    3: Encoding("Q4_1", 32, 20),
    6: Encoding("Q5_0", 32, 22),
    7: Encoding("Q5_1", 32, 24),
    8: Encoding("Q8_0", 32, 34),
    10: Encoding("Q2_K", 256, 84),
    11: Encoding("Q3_K", 256, 110),
    12: Encoding("Q4_K", 256, 144),
    13: Encoding("Q5_K", 256, 176),
    14: Encoding("Q6_K", 256, 210),
}
"""Those that nextok reads, by their number in the file; more are refused."""
_NOT_READ = {15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S"}
_NOT_READ |= {22: "IQ2_S", 23: "IQ4_XS", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufTensor:
    """A tensor in the file, not read yet."""

    shape: tuple[int, ...]
    """Slowest axis first, as everywhere here; the file has it the other way round."""
    encoding: Encoding
    """How its numbers are stored."""
    begin: int
    """Where its bytes begin in the file."""

    @property
    def n_bytes(self) -> int:
        """The bytes it takes in the file."""
        return math.prod(self.shape) // self.encoding.block * self.encoding.size


class GgufFile:
    """An open GGUF file whose header is known to be sound.

    Args:
        path: The file.

    Attributes:
        path: The file.
        metadata: Value of every key: numbers, switches, texts, lists of texts, arrays of numbers.
        tensors: By the name they have in the file.

    Raises:
        CheckpointError: if it is missing, cut short, of another kind, or contradicts itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream: BinaryIO = path.open("rb")
            weakref.finalize(self, self._stream.close)
            header = _Header(self._stream, path)
        except OSError as error:
            raise CheckpointError(f"Cannot read {path}: {error.strerror or error}.") from error
        self.metadata = header.metadata
        self.tensors = header.tensors

    def read(self, name: str) -> NDArray[Any]:
        """Returns a tensor as float32, or as float16 where the file has that: the caller's own memory.

        Raises:
            CheckpointError: if the file was cut short since it was opened.
            MissingExtraError: for a quantised one, if the package gguf is not installed.
        """
        tensor = self.tensors[name]
        raw = self.read_raw(name)
        match tensor.encoding.name:
            case "F32":
                return raw.view("<f4").reshape(tensor.shape)
            case "F16":
                return raw.view("<f2").reshape(tensor.shape)
            case "BF16":  # the upper half of a float32, so the widening is exact
                return (raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(tensor.shape)
        return _dequantised(raw, tensor)

    def read_raw(self, name: str) -> NDArray[np.uint8]:
        """Returns the bytes of a tensor.

        Raises:
            CheckpointError: if the file was cut short since it was opened.
        """
        tensor = self.tensors[name]
        return self._bytes(tensor.begin, tensor.n_bytes)

    def same_bytes(self, first: str, second: str) -> bool:
        """Whether two tensors of the same shape and encoding hold the same, compared piece by piece."""
        one, other = self.tensors[first], self.tensors[second]
        for start in range(0, one.n_bytes, _PIECE_BYTES):
            count = min(_PIECE_BYTES, one.n_bytes - start)
            if not np.array_equal(self._bytes(one.begin + start, count), self._bytes(other.begin + start, count)):
                return False
        return True

    def _bytes(self, begin: int, size: int) -> NDArray[np.uint8]:
        raw = np.empty(size, np.uint8)
        try:
            self._stream.seek(begin)
            count = self._stream.readinto(raw.data) if raw.size else 0  # type: ignore[attr-defined]
        except OSError as error:
            raise CheckpointError(f"Cannot read {self.path}: {error.strerror or error}.") from error
        if count < raw.size:
            raise CheckpointError(f"{self.path} was cut short while it was read.", _AGAIN)
        return raw


def import_gguf() -> ModuleType:
    """Returns the package gguf.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        import gguf  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise MissingExtraError(
            "Quantised weights and writing GGUF files need the package gguf, which is not installed.",
            "pip install 'nextok[gguf]'",
        ) from error
    return gguf


def _dequantised(raw: NDArray[np.uint8], tensor: GgufTensor) -> NDArray[np.float32]:
    """Returns float32 of the blocks, made in pieces: the package would hold the whole twice, and is slow row by row."""
    gguf = import_gguf()
    kind = gguf.GGMLQuantizationType[tensor.encoding.name]
    block, size = tensor.encoding.block, tensor.encoding.size
    numbers = np.empty(raw.size // size * block, np.float32)
    for start in range(0, raw.size // size, _PIECE_BLOCKS):
        end = start + _PIECE_BLOCKS
        numbers[start * block : end * block] = gguf.dequantize(raw[start * size : end * size], kind)
    return numbers.reshape(tensor.shape)


class _Header:
    """Reads the header front to back; every count is checked before anything is made of it."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._n_texts = stream, path, 0
        self._size = stream.seek(0, 2)
        stream.seek(0)
        self._check_kind()
        n_tensors, n_keys = self._number("<Q"), self._number("<Q")
        if max(n_tensors, n_keys) > _MOST_ENTRIES:
            raise self._broken(f"it claims {n_tensors} tensors and {n_keys} keys")
        self.metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            self._add_key()
        entries = [self._tensor_entry() for _ in range(n_tensors)]
        begin = self._first_byte()
        self.tensors: dict[str, GgufTensor] = {}
        for name, shape, encoding, offset in entries:
            self._add_tensor(name, GgufTensor(shape=shape, encoding=encoding, begin=begin + offset))

    def _check_kind(self) -> None:
        if self._take(4) != _MAGIC:
            raise CheckpointError(f"{self._path} is not a GGUF file.")
        version = self._number("<I")
        if version & 0xFFFF == 0:
            raise CheckpointError(f"{self._path} is a GGUF file for big-endian machines.", "Convert it for this one.")
        if version not in _VERSIONS:
            raise CheckpointError(f"{self._path} is a GGUF file of version {version}; versions 2 and 3 are read.")

    def _add_key(self) -> None:
        key = self._text(_LONGEST_NAME)
        if key in self.metadata:
            raise self._broken(f"the key {key!r} is there twice")
        self.metadata[key] = self._value(self._number("<I"), key)

    def _value(self, kind: int, key: str) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise self._broken(f"the key {key!r} has a value of the unknown type {kind}")
        value = self._number(_SCALARS[kind])
        # 1e-5 and not 9.999999747378752e-06: the shortest number that is the same float32
        return float(str(np.float32(value))) if kind == _FLOAT32 else value

    def _array(self, key: str) -> list[str] | NDArray[Any]:
        kind, count = self._number("<I"), self._number("<Q")
        if kind == _TEXT:
            self._n_texts += count
            if self._n_texts > _MOST_TEXTS:
                raise self._broken(f"the key {key!r} claims {count} texts")
            return [self._text() for _ in range(count)]
        if kind not in _SCALARS:
            raise self._broken(f"the key {key!r} has a list of the type {kind}")
        return np.frombuffer(self._take(count * struct.calcsize(_SCALARS[kind])), _SCALARS[kind])

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], Encoding, int]:
        name, n_axes = self._text(_LONGEST_NAME), self._number("<I")
        if not 1 <= n_axes <= _MOST_AXES:
            raise self._broken(f"the tensor {name!r} has {n_axes} axes")
        shape = tuple(self._number("<Q") for _ in range(n_axes))[::-1]
        kind = self._number("<I")
        if kind not in ENCODINGS:
            known = ", ".join(encoding.name for encoding in ENCODINGS.values())
            raise CheckpointError(
                f"The tensor {name!r} in {self._path} is stored as {_NOT_READ.get(kind, f'type {kind}')}.",
                f"nextok reads {known}.",
            )
        return name, shape, ENCODINGS[kind], self._number("<Q")

    def _first_byte(self) -> int:
        alignment = self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._broken(f"general.alignment is {alignment!r}")
        return math.ceil(self._stream.tell() / alignment) * alignment

    def _add_tensor(self, name: str, tensor: GgufTensor) -> None:
        if name in self.tensors:
            raise self._broken(f"the tensor {name!r} is there twice")
        if tensor.shape[-1] % tensor.encoding.block:
            raise self._broken(f"the rows of {name!r} are no whole blocks of {tensor.encoding.name}")
        if tensor.begin + tensor.n_bytes > self._size:
            raise CheckpointError(f"{self._path} is cut short: it ends inside the tensor {name!r}.", _AGAIN)
        self.tensors[name] = tensor

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _text(self, longest: int = _LONGEST_TEXT) -> str:
        length = self._number("<Q")
        if length > longest:
            raise self._broken(f"a text claims {length} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _take(self, count: int) -> bytes:
        if count > self._size - self._stream.tell():
            raise CheckpointError(f"{self._path} is cut short: it ends inside its header.", _AGAIN)
        return self._stream.read(count)

    def _broken(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self._path} is not a sound GGUF file: {what}.", _AGAIN)
