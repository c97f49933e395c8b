import numpy as np
import pytest

from nextok.interop.gguf_names import gguf_places, paired_heads, to_halves, to_pairs
from nextok.spec import parameter_shapes

gguf = pytest.importorskip("gguf")


def test_pairs_put_a_heads_halves_side_by_side():
    rows = np.arange(8)[:, None]  # two heads of width 4
    assert to_pairs(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("shape", [(24, 5), (24,)])
def test_halves_undo_pairs(shape):
    rows = np.random.default_rng(0).standard_normal(shape)
    assert np.array_equal(to_halves(to_pairs(rows, 4), 4), rows)


def test_only_llamas_queries_and_keys_are_permuted(tiny):
    for family in ("gpt2", "llama", "qwen3"):
        heads = {
            part.split(".", 2)[-1]: paired_heads(family, tiny[family], part)
            for place in gguf_places(family, tiny[family]).values()
            for part in place.names
        }
        expected = {"attn_q.weight": 3, "attn_k.weight": 1} if family == "llama" else {}
        assert {name: count for name, count in heads.items() if count} == expected


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
def test_every_name_is_one_that_llama_cpp_has_for_the_architecture(family, tiny):
    arch = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == family)
    known = {gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[arch]}
    for place in gguf_places(family, tiny[family]).values():
        for part in place.names:
            stem = part.rpartition(".")[0]
            assert stem.replace("blk.0.", "blk.{bid}.").replace("blk.1.", "blk.{bid}.") in known


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
def test_every_native_weight_has_its_place(family, tiny):
    placed = gguf_places(family, tiny[family])
    assert list(placed) == list(parameter_shapes(tiny[family]))
    assert {name: place.shape for name, place in placed.items()} == parameter_shapes(tiny[family])
    assert not any(place.transposed for place in placed.values())
