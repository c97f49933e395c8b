"""`import_model` and `export_model`: from one format to another, weight by weight, and then proof that nothing changed.

The proof is a comparison of logits on fixed ids: those of the model that was given, and those of what was written, read
again from the disk. Files that fail it are removed. Formats are in `hf_out.py` and `gguf_out.py`, the numbers of the
proof in `comparison.py`.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nextok.conversion.comparison import Comparison, compare, fixed_ids
from nextok.errors import CheckpointError, ConfigError, NextokError
from nextok.files import disk_errors, folder_atomically
from nextok.interop.fields import family_of
from nextok.interop.gguf_out import Precision, write_gguf
from nextok.interop.hf_out import write_stored
from nextok.interop.names import Family
from nextok.interop.padding import cut_padding
from nextok.interop.source import Hints, open_model, open_runnable
from nextok.interop.stored import StoredModel
from nextok.model import streamed_logits
from nextok.spec import ModelConfig, count
from nextok.tokenizer import Tokenizer, check_fits

Format = Literal["hf", "gguf"]
Stage = Literal["read", "write", "compare"]

MOST_DIFFERENCE = 1e-4
"""Of a logit, where the format keeps float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertProgress:
    """How far a conversion is."""

    stage: Stage
    """What is being done: the source read and run, the weights written, what was written read again and run."""
    weights_done: int
    """Numbers of this stage that are done."""
    weights_total: int
    """All of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """What was written, and how far it is from what was read."""

    source: Path
    """What was read."""
    path: Path
    """What was written."""
    format: Format
    """`hf`, a directory of transformers, or `gguf`."""
    precision: Precision
    """Of the stored matrices."""
    family: Family
    """Whose words were used; `nextok` where only nextok reads the directory."""
    notes: tuple[str, ...]
    """Sentences on what is otherwise than asked for, or will be in other programs; often none."""
    config: ModelConfig
    """The model that was written."""
    parameters: int
    """Its trained numbers."""
    bytes: int
    """Size of the files."""
    comparison: Comparison
    """The logits of the two."""


OnProgress = Callable[[ConvertProgress], None]


def import_model(
    source: Path,
    out: Path,
    *,
    tokenizer: Tokenizer | None = None,
    hints: Hints | None = None,
    on_progress: OnProgress | None = None,
) -> Conversion:
    """Writes any model that nextok reads as a directory of its own, which `generate` and the other commands take.

    Args:
        source: A directory of transformers, a GGUF file, a checkpoint of nanoGPT or minGPT, or a run directory.
        out: Folder to write; must not exist, or be empty.
        tokenizer: The tokenizer to put beside it; None is the one that the source has.
        hints: What a checkpoint does not say of itself.
        on_progress: Called with how far it is.

    Raises:
        CheckpointError: if the source cannot be read, or `out` is not free.
        ConfigError: for hints about a file that needs none.
        TokenizerError: if the tokenizer does not fit.
        NextokError: if what was written does not compute the same.
        DiskError: if it cannot be written.
    """

    def opened() -> StoredModel:
        stored = open_model(source, hints)
        if tokenizer is None:
            return stored
        check_fits(tokenizer, stored.config.vocab_size)
        return replace(stored, tokenizer=tokenizer)

    return _convert(source, opened, out, "hf", "f32", on_progress)


def export_model(
    model: Path,
    out: Path,
    *,
    to: Format,
    precision: Precision = "f32",
    on_progress: OnProgress | None = None,
) -> Conversion:
    """Writes a model for other programs: a directory of transformers, or a GGUF file.

    Rows of a padded embedding that no token has are left out, because other programs refuse them.

    Args:
        model: A run directory, a directory of transformers, or a GGUF file.
        out: Folder or file to write; must not exist (an empty folder may).
        to: `hf` or `gguf`.
        precision: Of the matrices in a GGUF file; a directory is always f32.
        on_progress: Called with how far it is.

    Raises:
        ConfigError: for a precision that the format has not, or a model that the format cannot express.
        CheckpointError: if the model cannot be read, or `out` is not free.
        MissingExtraError: for `gguf`, if the package of that name is not installed.
        NextokError: if what was written does not compute the same.
        DiskError: if it cannot be written.
    """
    if to == "hf" and precision != "f32":
        raise ConfigError(
            f"A directory of transformers is written in f32, not in {precision}.",
            "Write it --to gguf, or leave --precision out.",
        )

    def opened() -> StoredModel:
        stored = open_runnable(model)
        family, reason = family_of(stored.config)
        if family == "nextok":
            raise ConfigError(f"{model} cannot be exported. {reason}", "nextok itself runs it as it is.")
        return stored if stored.tokenizer is None else cut_padding(stored, stored.tokenizer.vocab_size)

    return _convert(model, opened, out, to, precision, on_progress)


def write_model(stored: StoredModel, out: Path, to: Format, precision: Precision = "f32") -> tuple[str, ...]:
    """Writes the stored model in the format, and compares nothing; its weights are used up. Returns notes on it.

    Raises:
        ConfigError: if the format cannot express the model.
        DiskError: if it cannot be written.
    """
    if to == "hf":
        reason = write_stored(out, stored).reason
        return (reason,) if reason else ()
    return write_gguf(out, stored.config, stored.arrays, stored.tokenizer, precision).notes


def _convert(
    source: Path,
    opened: Callable[[], StoredModel],
    out: Path,
    to: Format,
    precision: Precision,
    on_progress: OnProgress | None,
) -> Conversion:
    """Writes the model that `opened` gives; weights pass by one layer at a time."""
    _check_free(out, to)
    stored = opened()
    config, said = stored.config, (stored.note,) if stored.note else ()
    expected_NV = _logits(_watched(stored, "read", on_progress), config.vocab_size)
    with _aside(out, to) as aside:
        notes = write_model(_watched(opened(), "write", on_progress), aside, to, precision)
        written = _watched(open_model(aside), "compare", on_progress)
        comparison = compare(expected_NV, _logits(written, config.vocab_size))
        _check_same(comparison, out, precision)
    return Conversion(
        source=source,
        path=out,
        format=to,
        precision=precision,
        family=family_of(config)[0],
        notes=(*said, *notes),
        config=config,
        parameters=count(config).parameters,
        bytes=sum(file.stat().st_size for file in ([out] if out.is_file() else out.iterdir())),
        comparison=comparison,
    )


def _check_free(out: Path, to: Format) -> None:
    """Refuses a place where something is: a conversion replaces nothing."""
    if not out.exists():
        return
    if to == "gguf":
        raise CheckpointError(f"{out} already exists.", "Name a new file with --out.")
    if not out.is_dir():
        raise CheckpointError(f"{out} is a file, not a folder.", "Name another folder with --out.")
    if inside := sorted(out.iterdir()):
        raise CheckpointError(
            f"{out} already holds other files, {inside[0].name!r} among them.",
            "Name an empty or new folder with --out.",
        )


@contextlib.contextmanager
def _aside(out: Path, to: Format) -> Iterator[Path]:
    """Yields the place to write; what is there appears at `out` when all went well, and nothing otherwise."""
    if to == "hf":
        with folder_atomically(out) as folder:
            yield folder
        return
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".partial", dir=out.parent) as folder:
            yield Path(folder) / out.name
            os.replace(Path(folder) / out.name, out)


def _logits(stored: StoredModel, vocab_size: int) -> NDArray[np.float32]:
    ids_BT = fixed_ids(stored.config.context, vocab_size)
    logits_BTV = streamed_logits(stored.config, stored.arrays, ids_BT)[..., :vocab_size]
    return logits_BTV.reshape(-1, vocab_size)


def _check_same(comparison: Comparison, out: Path, precision: Precision) -> None:
    """Refuses what does not compute the same, or with fewer bits of precision what computes no numbers at all."""
    most = MOST_DIFFERENCE if precision == "f32" else math.inf
    if not comparison.max_logit_difference <= most:  # NaN is refused too
        raise NextokError(
            f"The conversion to {out} failed: its logits differ from the model's by up to "
            f"{comparison.max_logit_difference:.3g}, where {most:g} is allowed. Nothing was left there.",
            "Please report this model.",
        )


def _watched(stored: StoredModel, stage: Stage, on_progress: OnProgress | None) -> StoredModel:
    """Returns the stored model, whose weights are counted as they are read."""
    if on_progress is None:
        return stored
    return replace(stored, arrays=_counted(stored, stage, on_progress))


def _counted(stored: StoredModel, stage: Stage, on_progress: OnProgress) -> Iterator[tuple[str, NDArray[Any]]]:
    done, total = 0, count(stored.config).parameters
    for name, array in stored.arrays:
        done += array.size  # before it is handed on: nobody asks for what follows the last one
        on_progress(ConvertProgress(stage=stage, weights_done=done, weights_total=total))
        yield name, array
        del array
