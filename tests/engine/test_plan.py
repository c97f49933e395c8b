"""Where everything lies: no two things in one place, nothing outside, and every place a whole number of tiles."""

import numpy as np
import pytest

from nextok.engine.layout import packed_bytes, padded
from nextok.engine.plan import PRECISIONS, SWIGLU, plan, rotations, shape_record
from nextok.engine.tiles import BF16, F32, INT4, INT8
from nextok.spec import ModelConfig, parameter_shapes

from .models import SIZES, config_of


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SIZES)
def test_matrices_fill_the_arena_and_vectors_the_rest_without_overlap(name: str, precision: str) -> None:
    config = config_of(name)
    memory, shapes = plan(config, precision), parameter_shapes(config)
    assert {*memory.names} | {*memory.vectors} == shapes.keys()
    end = 0
    for matrix, record in zip(memory.names, memory.matrices, strict=False):
        assert record["begin"] == end
        assert (record["blocks"] * 32, record["across"] * 32) == tuple(padded(width) for width in shapes[matrix])
        end += packed_bytes(int(record["kind"]), *shapes[matrix])
    assert end == memory.arena_bytes
    taken = [(0, memory.ones), (memory.ones, 2 * memory.ones)]
    taken += [(begin, begin + padded(memory.widths[vector])) for vector, begin in memory.vectors.items()]
    taken += [
        (int(record["scales"]), int(record["scales"]) + padded(shapes[matrix][0]))
        for matrix, record in zip(memory.names, memory.matrices, strict=False)
        if record["kind"] == INT8
    ]
    taken.sort()
    assert all(before[1] <= after[0] for before, after in zip(taken, taken[1:], strict=False))
    assert taken[0][0] == 0 and taken[-1][1] == memory.vector_numbers


@pytest.mark.parametrize("name", SIZES)
def test_the_zeros_and_ones_are_as_wide_as_the_widest_matrix(name: str) -> None:
    memory = plan(config_of(name), "fp32")
    assert memory.ones == max(int(record["blocks"]) for record in memory.matrices) * 32


@pytest.mark.parametrize(
    ("precision", "inside", "outside"),
    [("fp32", F32, F32), ("bf16", BF16, BF16), ("int8", INT8, INT8), ("int4", INT4, INT8)],
)
def test_embedding_and_head_of_an_int4_model_are_int8(precision: str, inside: int, outside: int) -> None:
    records = plan(config_of("qwen3"), precision).matrices
    assert records["kind"].tolist() == [inside] * 8 + [outside] * 2


def test_a_tied_head_is_the_embedding_and_outputs_of_two_matrices_are_added() -> None:
    records = plan(config_of("whole tiles"), "int8").matrices
    assert records[-1] == records[-2]
    assert records["adds"].tolist() == [0, 1, 0, 1] * 2 + [0, 0]
    untied = plan(config_of("qwen3"), "int8").matrices
    assert untied[-1]["begin"] > untied[-2]["begin"]


def test_what_a_model_has_not_is_read_from_the_zeros_and_ones() -> None:
    memory = plan(config_of("qwen3"), "fp32")  # no biases
    assert not memory.matrices["biases"].any()
    assert not memory.layers["norm1_bias"].any()
    assert memory.layers[0]["q_norm"] == memory.vectors["blocks.0.attn.q_norm.weight"]
    assert memory.layers[2]["norm1"] == memory.vectors["final_norm.weight"]
    plain = plan(config_of("after the sum"), "fp32")
    assert plain.layers[0]["q_norm"] == plain.layers[2]["norm1"] == plain.ones


def test_the_record_of_a_shape_says_what_the_config_says() -> None:
    config = config_of("qwen3")
    [shape] = shape_record(config, plan(config, "bf16"), n_slots=3, past_kind=BF16)
    expected = {
        "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_model": 64, "d_head": 32, "d_ff": config.d_ff, "mlp": SWIGLU,
        "n_slots": 3, "past_kind": BF16, "head_tiles": 1, "position_tiles": 3, "norms_first": 1, "centres": 0,
        "has_qk_norm": 1, "has_turns": 1, "has_positions": 0, "norm_eps": 1e-6, "softcap": 0,
    }  # fmt: skip
    assert {name: shape[name].item() for name in expected} == expected


def test_rotations_are_cosines_then_sines_of_position_times_frequency() -> None:
    turns_CK = rotations(ModelConfig(d_head=4, n_heads=1, position="rope", context=3, rope_base=100.0, vocab_size=5))
    angles = np.array([[0, 0], [1, 0.1], [2, 0.2]])
    np.testing.assert_allclose(turns_CK, np.concatenate([np.cos(angles), np.sin(angles)], axis=1), atol=1e-7)
    assert rotations(ModelConfig(vocab_size=5)).shape == (0, 32)
