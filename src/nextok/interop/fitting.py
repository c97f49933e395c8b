"""Whether the tensors of a file are exactly those of a model, by name, shape and dtype, before one number is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nextok.checkpoint import TensorSpec
from nextok.errors import CheckpointError
from nextok.interop.names import Family, Place, is_buffer, plain_name

_DTYPES = ("F32", "F16", "BF16")
_FEW = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTensor:
    """A tensor in a file, not read yet."""

    name: str
    """Its whole name there."""
    file: Path
    """The file."""
    spec: TensorSpec
    """Its shape and dtype there."""


def by_plain_name(family: Family, tensors: Iterable[StoredTensor]) -> dict[str, StoredTensor]:
    """Returns the tensors by `plain_name`, without the constants that the family's files carry.

    Raises:
        CheckpointError: if two tensors have one plain name.
    """
    stored: dict[str, StoredTensor] = {}
    for tensor in tensors:
        name = plain_name(tensor.name)
        if is_buffer(family, name):
            continue
        if name in stored:
            raise CheckpointError(
                f"{tensor.file.parent} holds {name!r} twice, as {stored[name].name!r} and as {tensor.name!r}."
            )
        stored[name] = tensor
    return stored


def check_fit(wanted: Mapping[str, Place], stored: Mapping[str, StoredTensor], where: Path, described_by: str) -> None:
    """Refuses tensors that are not those of the model.

    Args:
        wanted: Where each weight of the model lies.
        stored: What there is, by plain name.
        where: The file or folder, for the message.
        described_by: What says how the model is, for the message: `its config.json`.

    Raises:
        CheckpointError: if a tensor is missing, unexpected, or of another shape or dtype, by name.
    """
    shapes = {
        name: shape for place in wanted.values() for name, shape in zip(place.names, place.stored_shapes, strict=True)
    }
    missing = [name for name in shapes if name not in stored]
    unexpected = [tensor.name for name, tensor in stored.items() if name not in shapes]
    if missing or unexpected:
        found = [_listed("lacks", missing), _listed("holds unexpected", unexpected)]
        raise CheckpointError(
            f"The weights in {where} do not fit {described_by}: it {' and '.join(each for each in found if each)}.",
            f"Nothing was loaded; {described_by} and the weights have to be of one model.",
        )
    for name, shape in shapes.items():
        _check_spec(stored[name], shape, where, described_by)


def _check_spec(tensor: StoredTensor, shape: tuple[int, ...], where: Path, described_by: str) -> None:
    if tensor.spec.shape != shape:
        raise CheckpointError(
            f"{tensor.name} in {where} has shape {list(tensor.spec.shape)}; {described_by} asks for {list(shape)}."
        )
    if tensor.spec.dtype not in _DTYPES:
        raise CheckpointError(
            f"{tensor.name} in {where} has dtype {tensor.spec.dtype}; known: {', '.join(_DTYPES)}.",
            "Save the model in float32 with the tool that made it.",
        )


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"{what} {', '.join(names[:_FEW])}{more}"
