"""A file of torch.save as tensors and plain values: torch's restricted unpickler only, read in parts where it can be.

What the tensors are the weights of is not known here.
"""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from nextok.errors import CheckpointError

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
_CUT = "Copy or download it again."
_SHOWN = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchFile:
    """A file that torch can open as tensors."""

    path: Path
    """The file."""
    mapped: bool
    """Whether numbers are read from disk when they are touched; files from before torch 1.6 are read whole."""

    @classmethod
    def of(cls, path: Path) -> "TorchFile":
        """Returns the file, once it is known to be none that torch would take for something else.

        Raises:
            CheckpointError: if it is missing, cut short or of another kind.
        """
        return cls(path=path, mapped=_is_zip(path))

    def load(self) -> Any:
        """Returns what was saved: tensors on the CPU, numbers, text, lists and dictionaries.

        Raises:
            CheckpointError: if the file holds anything else, or is damaged.
        """
        try:
            return torch.load(self.path, map_location="cpu", weights_only=True, mmap=self.mapped)
        except UnpicklingError as error:
            if (named := _GLOBAL.search(str(error))) is None:
                raise CheckpointError(f"{self.path} is not a checkpoint that can be read safely.", _CUT) from error
            raise CheckpointError(
                f"{self.path} holds objects beside its tensors ({named[1]}), which only running code could open.",
                "If you trust the file, save it again without them: c = torch.load(path, weights_only=False); "
                "torch.save({'model': c['model'], 'model_args': c['model_args']}, new_path).",
            ) from error
        except Exception as error:  # a damaged file can raise nearly anything
            reason = str(error).split("\n")[0][:_SHOWN] or type(error).__name__
            raise CheckpointError(f"{self.path} cannot be read by torch: {reason}.", _CUT) from error


def is_plain_tensor(value: object) -> bool:
    """Returns whether a value is a dense tensor with all its numbers in the file: strides of 0 make many of one."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
        and value.nbytes <= value.untyped_storage().nbytes()
    )


def _is_zip(path: Path) -> bool:
    """Returns whether the file is one that can be read in parts, and refuses what torch would not take as tensors."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        if not start.startswith((b"PK\x03\x04", b"\x80")):
            raise CheckpointError(f"{path} is not a file of torch.save: it starts with {start!r}.")
        if start[0] == 0x80:  # the pickle of torch before 1.6
            return False
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole file of torch.save: {error}.", _CUT) from error
    if any(record.filename.endswith("/constants.pkl") for record in records):
        raise CheckpointError(f"{path} is a TorchScript program, not a checkpoint.", "Give the one made by torch.save.")
    if any(record.compress_type != zipfile.ZIP_STORED for record in records):
        raise CheckpointError(f"{path} was packed by another program than torch.save.", "Give the file as it was.")
    return True
