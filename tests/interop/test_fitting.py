import re
from pathlib import Path

import pytest

from nextok.checkpoint import TensorSpec
from nextok.errors import CheckpointError
from nextok.interop.fitting import StoredTensor, by_plain_name, check_fit
from nextok.interop.names import places, written_name
from nextok.spec import ModelConfig

CONFIG = ModelConfig(n_layers=1, d_model=4, n_heads=2, context=3, vocab_size=5)
WANTED = places("gpt2", CONFIG)


def tensor(name, shape=(1,), dtype="F32"):
    return StoredTensor(name=name, file=Path("some/file"), spec=TensorSpec(shape, dtype))


def fitting(dtype="F32"):
    shapes = {
        name: shape for place in WANTED.values() for name, shape in zip(place.names, place.stored_shapes, strict=True)
    }
    return by_plain_name("gpt2", [tensor(written_name("gpt2", name), shape, dtype) for name, shape in shapes.items()])


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_exactly_the_tensors_of_a_model_fit(dtype):
    check_fit(WANTED, fitting(dtype), Path("here"), "its config.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop("ln_f.bias"), "The weights in here do not fit its words: it lacks ln_f.bias."),
        (
            lambda t: t.update(score=tensor("a.score")),
            "The weights in here do not fit its words: it holds unexpected a.score.",
        ),
        (
            lambda t: t.update({"ln_f.bias": tensor("ln_f.bias", (5,))}),
            "ln_f.bias in here has shape [5]; its words asks for [4].",
        ),
        (
            lambda t: t.update({"ln_f.bias": tensor("ln_f.bias", (4,), "I8")}),
            "ln_f.bias in here has dtype I8; known: F32, F16, BF16.",
        ),
        (lambda t: t.clear(), "it lacks wte.weight, wpe.weight, h.0.ln_1.weight and 13 more."),
    ],
)
def test_any_other_tensors_are_refused_by_name(change, told):
    tensors = fitting()
    change(tensors)
    with pytest.raises(CheckpointError, match=re.escape(told)):
        check_fit(WANTED, tensors, Path("here"), "its words")


def test_constants_are_left_out_and_one_name_twice_is_refused():
    tensors = [tensor("transformer.h.0.attn.bias"), tensor("transformer.h.0.attn.c_attn.bias")]
    assert list(by_plain_name("gpt2", tensors)) == ["h.0.attn.c_attn.bias"]
    with pytest.raises(CheckpointError, match=r"'ln_f\.bias' twice, as 'ln_f\.bias' and as 'module\.ln_f\.bias'"):
        by_plain_name("gpt2", [tensor("ln_f.bias"), tensor("module.ln_f.bias")])
