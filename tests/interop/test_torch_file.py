"""Files of torch.save: what is opened, in parts, and what is refused with a reason and no crash."""

import dataclasses
import io
import tarfile
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError
from nextok.interop.torch_file import TorchFile, is_plain_tensor


@dataclasses.dataclass
class Config:
    n_head: int = 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.pt"


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_and_plain_values_come_back(path, zipped):
    content = {"w": torch.arange(6.0).reshape(2, 3).T, "args": OrderedDict(n=3, x=1e-3, on=True, name="ü", list=[None])}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    file = TorchFile.of(path)
    back = file.load()
    assert file.mapped == zipped
    assert torch.equal(back.pop("w"), content.pop("w"))
    assert back == content


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("thing", "named"), [(Config(), "Config"), (np.float64(1.5), "scalar"), (torch.nn.Linear(1, 1), "Linear")]
)
def test_objects_are_refused_by_name_with_the_way_to_save_without_them(path, thing, named, zipped):
    torch.save({"model": {}, "config": thing}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=rf"holds objects beside its tensors \([\w.]*{named}\)") as caught:
        TorchFile.of(path).load()
    assert "'model_args': c['model_args']" in caught.value.hint


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_cut_anywhere_is_refused(path, zipped):
    torch.save({"w": torch.arange(300.0)}, path, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    for kept in [*range(12), *range(12, len(data) - 1, 61), len(data) - 1]:
        path.write_bytes(data[:kept])
        with pytest.raises(CheckpointError):
            TorchFile.of(path).load()


@pytest.mark.parametrize("start", [b"GGUF\3\0\0\0", b"\x10\0\0\0\0\0\0\0{}", b"PK\x05\x06", b"<!DOCTYPE html>", b""])
def test_other_files_are_refused_unopened(path, start):
    path.write_bytes(start.ljust(100, b"\0") if start else b"")
    with pytest.raises(CheckpointError, match=r"is not a file of torch\.save"):
        TorchFile.of(path)


def test_the_tar_files_of_the_first_torch_are_refused(path):
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    with pytest.raises(CheckpointError, match=r"is not a file of torch\.save"):
        TorchFile.of(path)


def rewritten(path, compression, change=lambda name, data: data):
    with zipfile.ZipFile(path) as archive:
        records = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in records.items():
            if data is not None:
                archive.writestr(name, data)


def test_a_program_and_a_packed_file_are_refused(path):
    torch.save({"w": torch.zeros(1000)}, path)
    rewritten(path, zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="packed by another program"):
        TorchFile.of(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/constants.pkl", b"")
    with pytest.raises(CheckpointError, match="TorchScript program"):
        TorchFile.of(path)


@pytest.mark.parametrize("kept", [100, None])
def test_a_record_that_is_short_or_missing_is_refused(path, kept):
    torch.save({"w": torch.zeros(1000)}, path)
    rewritten(
        path,
        zipfile.ZIP_STORED,
        lambda name, data: data if not name.endswith("data/0") else None if kept is None else data[:kept],
    )
    with pytest.raises(CheckpointError, match="cannot be read by torch"):
        TorchFile.of(path).load()


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.pt", tmp_path):
        with pytest.raises(CheckpointError, match="Cannot read"):
            TorchFile.of(path)


def test_numbers_are_read_only_when_they_are_touched(path):
    torch.save({"w": torch.zeros(1000)}, path)
    assert not TorchFile.of(path).load()["w"].untyped_storage().resizable()  # the mark of a mapping


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (torch.zeros(2, 3), True),
        (torch.zeros(3, 2).T, True),
        (torch.zeros(9)[2:5], True),
        (torch.nn.Parameter(torch.zeros(2)), True),
        (torch.zeros(()), True),
        (torch.zeros(0, 4), True),
        (torch.zeros(1).expand(1000), False),
        (torch.zeros(2, device="meta"), False),
        ([0.0], False),
    ],
)
def test_plain_tensors_hold_all_their_numbers(value, plain):
    assert is_plain_tensor(value) == plain
