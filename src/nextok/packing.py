"""Packed forms of a model on disk: where they lie, and whether they still belong to its weights."""

from pathlib import Path

from nextok.engine import PackedModel, Precision, open_packed, write_packed
from nextok.files import disk_errors
from nextok.spec import ModelConfig


def packed_path(model: Path, precision: Precision) -> Path:
    """Returns where the packed form of a model lies: in its folder, or beside its file."""
    if model.is_dir():
        return model / "packed" / f"{precision}.safetensors"
    return model.with_name(f"{model.name}.{precision}.safetensors")


def find_packed(model: Path, config: ModelConfig, precision: Precision) -> PackedModel | None:
    """Returns the packed form that lies beside a model, mapped; None if there is none, or it is of another model.

    Raises:
        CheckpointError: if its file is cut short or contradicts itself.
    """
    found = open_packed(packed_path(model, precision), _stamp(model))
    return found if found is not None and found.config == config else None


def save_packed(model: Path, packed: PackedModel) -> Path:
    """Writes the packed form beside the model and returns where.

    Raises:
        DiskError: if it cannot be written.
    """
    path = packed_path(model, packed.precision)
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
    write_packed(path, packed, _stamp(model))
    return path


def _stamp(model: Path) -> dict[str, list[int]]:
    """Returns size and time of each file of weights: training on, or copying another model there, changes them."""
    files = sorted(model.glob("*.safetensors")) if model.is_dir() else [model]  # shards may have any name
    return {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.is_file()}
