"""What passing a model through costs in memory: one weight at a time, measured in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from nextok.checkpoint import TensorSpec, stream_weights
from nextok.interop import write_description
from nextok.interop.names import places, written_name
from nextok.spec import ModelConfig, count, parameter_shapes

MEASURE = """
import sys
from pathlib import Path
import torch
from nextok.conversion import import_model
from nextok.machine import peak_memory_bytes

for line in open("/proc/self/status", encoding="utf-8"):
    if line.startswith("VmRSS:"):
        before = int(line.split()[1]) * 1024
source, out = map(Path, sys.argv[1:])
import_model(source, out)
print(peak_memory_bytes() - before)
"""


def numbers(shape, seed):
    """Returns cheap numbers that are no zeros and not the same in two tensors."""
    return np.resize(np.random.default_rng(seed).standard_normal(1000, dtype=np.float32), shape)


def folder_f32(folder, config):
    write_description(folder, config)
    specs = {}
    for place in places("gpt2", config).values():
        specs |= {written_name("gpt2", name): TensorSpec(place.stored_shapes[0], "F32") for name in place.names}
    arrays = ((name, numbers(spec.shape, i)) for i, (name, spec) in enumerate(specs.items()))
    stream_weights(folder / "model.safetensors", specs, arrays)
    return folder


def folder_bf16(folder, config):
    """A folder whose file has the header of a float16 one, with the other name of two bytes in it."""
    write_description(folder, config)
    specs = {}
    for place in places("gpt2", config).values():
        specs |= {written_name("gpt2", name): TensorSpec(place.stored_shapes[0], "F16") for name in place.names}
    arrays = (
        (name, numbers(spec.shape, i).view("<u2")[..., 1::2].view("<f2"))
        for i, (name, spec) in enumerate(specs.items())
    )
    path = folder / "model.safetensors"
    stream_weights(path, specs, arrays)
    with path.open("r+b") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length).replace(b'"dtype": "F16"', b'"dtype":"BF16"')  # no longer, by the space
        stream.seek(8)
        stream.write(header)
    return folder


def file_pt(folder, config):
    folder.mkdir()
    tensors = {}
    for i, (native, place) in enumerate(places("nanogpt", config).items()):
        tensors |= {
            written_name("nanogpt", place.names[0]): torch.from_numpy(numbers(parameter_shapes(config)[native], i))
        }
    args = {"n_head": config.n_heads, "bias": True}
    torch.save({"model": tensors, "model_args": args}, folder / "ckpt.pt")
    return folder / "ckpt.pt"


def peak_over_size(make, config, tmp_path):
    """Returns the most memory that importing took beyond the bare runtime, over the size of the file."""
    source = make(tmp_path / "source", config)
    size = (source if source.is_file() else source / "model.safetensors").stat().st_size
    command = [sys.executable, "-c", MEASURE, source, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 4 * count(config).parameters
    return int(done.stdout) / size


MAKERS = [folder_f32, folder_bf16, file_pt]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident size is measured as Linux counts it")


@linux
@pytest.mark.parametrize("make", MAKERS)
def test_importing_holds_weights_and_not_the_model(make, tmp_path):
    config = ModelConfig(n_layers=20, d_model=256, n_heads=4, vocab_size=2000)
    assert peak_over_size(make, config, tmp_path) < 2  # a small file; and what torch loads when it first computes


@linux
@pytest.mark.slow
@pytest.mark.parametrize(("make", "n_layers"), [(folder_f32, 12), (folder_bf16, 29), (file_pt, 12)])
def test_importing_half_a_gigabyte_takes_hardly_more_than_its_largest_matrix(make, n_layers, tmp_path):
    config = ModelConfig(n_layers=n_layers, d_model=768, n_heads=12, vocab_size=50_257, context=1024)
    assert peak_over_size(make, config, tmp_path) < 1.3  # the logits compared, the embedding and a block
