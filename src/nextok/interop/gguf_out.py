"""A model as one GGUF file, for llama.cpp and what is built on it: whole or not there, one weight in memory at a time.

Written as llama.cpp's own converter does it: norms, biases and position vectors stay float32, matrices take the
precision asked for, and the embedding and the head of a q4_0 file are q8_0. What the formats cannot say is refused
before anything is written.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.files import write_atomically
from nextok.interop.gguf_fields import gguf_family, written_gguf_fields
from nextok.interop.gguf_file import ENCODINGS, Encoding, import_gguf
from nextok.interop.gguf_names import EMBEDDING, HEAD, gguf_places, paired_heads, to_pairs
from nextok.interop.gguf_tokenizer_out import written_gguf_tokenizer
from nextok.interop.hf_out import in_order
from nextok.interop.names import Family
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import Tokenizer, check_fits

Precision = Literal["f32", "f16", "q8_0", "q4_0"]
Arrays = Mapping[str, NDArray[Any]] | Iterable[tuple[str, NDArray[Any]]]

_Plan = dict[str, tuple[tuple[int, ...], Encoding]]  # shape and encoding of every tensor of the file, in its order
_Tensor = tuple[str, NDArray[Any]]

_FILE_TYPES: Mapping[Precision, int] = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7}  # llama.cpp's llama_ftype
_QUANTISATION_VERSION = 2
_POSITIONS = "position_embd.weight"
_BLOCK = 32
_LARGEST_FLOAT16 = 65504.0
_PIECE = 1 << 19  # numbers; whole blocks
_ROWS_ARE_IDS = ("embed.tokens.weight", "head.weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenGguf:
    """How a model was written."""

    family: Family
    """The architecture whose names were used."""
    notes: tuple[str, ...]
    """Sentences on what other programs will do otherwise, or what is stored otherwise than asked; often none."""


def write_gguf(
    path: Path, config: ModelConfig, arrays: Arrays, tokenizer: Tokenizer | None, precision: Precision = "f32"
) -> WrittenGguf:
    """Writes the model as a GGUF file that llama.cpp computes exactly, as far as the precision goes.

    Rows of a padded embedding that the tokenizer has no ids for are left out: llama.cpp would draw them.

    Args:
        path: The file; an older one is replaced only when the new one is complete.
        config: The model.
        arrays: All of `nextok.spec.parameter_shapes`: by native name, or as pairs in its order, read one by one.
        tokenizer: Goes into the file; there is no GGUF file without one.
        precision: Of the matrices. Rows that are no whole blocks of 32 are written as f16, with a note.

    Raises:
        ConfigError: if no architecture of GGUF computes the model, for a precision that is none, or for weights too
            large for it.
        TokenizerError: if there is no tokenizer, it has more tokens than the model, or the file would give other ids.
        CheckpointError: if a weight is missing, unexpected, or of another shape.
        MissingExtraError: if the package gguf is not installed.
        DiskError: if the file cannot be written; an older one stays as it was.
    """
    if precision not in _FILE_TYPES:
        raise ConfigError(f"precision = {precision!r} is none of GGUF's.", f"Choose {', '.join(_FILE_TYPES)}.")
    if tokenizer is None:
        raise TokenizerError("The model has no tokenizer, and a GGUF file cannot do without.", "Give its tokenizer.")
    check_fits(tokenizer, config.vocab_size)
    import_gguf()  # said before anything is made
    family = gguf_family(config)
    keys, notes = written_gguf_tokenizer(tokenizer)
    cut = replace(config, vocab_size=tokenizer.vocab_size)
    plan = _plan(family, cut, precision)
    general = {"general.file_type": _FILE_TYPES[precision], "general.quantization_version": _QUANTISATION_VERSION}
    keys = {**general, **written_gguf_fields(cut, family), **keys}
    tensors = _stored(family, cut, _native(config, cut, arrays))
    write_atomically(path, lambda stream: _write(stream, family, keys, plan, tensors))
    return WrittenGguf(family=family, notes=(*notes, *_fallbacks(plan, precision)))


def _plan(family: Family, config: ModelConfig, precision: Precision) -> _Plan:
    encodings = {encoding.name: encoding for encoding in ENCODINGS.values()}
    return {
        name: (shape, encodings[_encoding(name, shape, precision)])
        for place in gguf_places(family, config).values()
        for name, shape in zip(place.names, place.stored_shapes, strict=True)
    }


def _encoding(name: str, shape: tuple[int, ...], precision: Precision) -> str:
    if len(shape) == 1 or name == _POSITIONS or precision == "f32":
        return "F32"
    if precision == "f16" or shape[-1] % _BLOCK:
        return "F16"
    return "Q8_0" if name in (EMBEDDING, HEAD) else precision.upper()


def _fallbacks(plan: _Plan, precision: Precision) -> list[str]:
    if precision not in ("q8_0", "q4_0"):
        return []
    widths = [shape[-1] for shape, encoding in plan.values() if encoding.name == "F16"]
    rows = " and ".join(map(str, sorted(set(widths))))
    if not widths:
        return []
    return [f"{len(widths)} matrices are f16: their rows of {rows} numbers are no whole blocks of {_BLOCK}."]


def _native(config: ModelConfig, cut: ModelConfig, arrays: Arrays) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the weights in their order, without rows that no token has."""
    pairs = in_order(config, arrays) if isinstance(arrays, Mapping) else arrays
    for name, array in pairs:
        yield name, array[: cut.vocab_size] if name in _ROWS_ARE_IDS else array
        del array


def _stored(family: Family, config: ModelConfig, arrays: Iterator[tuple[str, NDArray[Any]]]) -> Iterator[_Tensor]:
    """Yields every tensor of the file, in its order, as the file has it."""
    own = parameter_shapes(config)
    for name, place in gguf_places(family, config).items():
        given, array = next(arrays) if name in own else (name, np.zeros(place.shape, np.float32))
        if given != name or array.shape != place.shape:
            raise CheckpointError(f"The weight {given} of shape {list(array.shape)} came where {name} was due.")
        for part_name, part in place.split(array):
            heads = paired_heads(family, config, part_name)
            yield part_name, to_pairs(part, heads) if heads else part
            del part
        del array


def _write(
    stream: BinaryIO, family: Family, keys: Mapping[str, object], plan: _Plan, tensors: Iterator[_Tensor]
) -> None:
    gguf = import_gguf()
    # The package opens the unfinished file once more by its name; `stream` is there to be synced and renamed.
    writer = gguf.GGUFWriter(stream.name, family)
    try:
        for key, value in keys.items():
            _add(writer, key, value)
        for name, (shape, encoding) in plan.items():
            n_bytes = math.prod(shape) // encoding.block * encoding.size
            writer.add_tensor_info(name, shape, np.dtype(np.float32), n_bytes, gguf.GGMLQuantizationType[encoding.name])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        (out,) = writer.fout
        for name, array in tensors:
            writer.write_padding(out, out.tell())
            _write_numbers(out, name, array, plan[name][1].name)
        writer.write_padding(out, out.tell())
    finally:
        writer.close()


def _add(writer: Any, key: str, value: object) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _write_numbers(out: BinaryIO, name: str, array: NDArray[Any], encoding: str) -> None:
    """Writes the numbers in pieces: rows do not matter to blocks, which never span two."""
    gguf = import_gguf()
    flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        if encoding != "F32" and not np.abs(piece).max() <= _LARGEST_FLOAT16:
            raise ConfigError(
                f"{name} holds numbers that are above {_LARGEST_FLOAT16:g} or not finite; {encoding} cannot hold them.",
                "Write it with precision f32.",
            )
        out.write(gguf.quantize(piece, gguf.GGMLQuantizationType[encoding]).data)
