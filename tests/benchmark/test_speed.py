"""Prefill and decoding of a model: what is counted, where it is measured, and that it is measured there."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nextok.benchmark import measure_speed, prefill_flops, streamed_bytes
from nextok.benchmark.speed import _affordable, cases, positions
from nextok.benchmark.subject import random_weights
from nextok.engine import PRECISIONS, NumbaDecoder, PackedModel, Precision, pack_model
from nextok.spec import ModelConfig, count

SMALL: dict[str, Any] = {"n_layers": 1, "d_model": 8, "n_heads": 2, "context": 12, "vocab_size": 11}


def packed_of(precision: Precision = "fp32", **changes: Any) -> PackedModel:
    config = ModelConfig(**{**SMALL, **changes})
    return pack_model(config, random_weights(config), precision)


def test_operations_of_one_token_by_hand() -> None:
    # qkv 8 x 24, out 8 x 8, up 8 x 32, down 32 x 8, head 8 x 11; one pair of positions, twice
    assert prefill_flops(ModelConfig(**SMALL), 1) == 2 * (192 + 64 + 256 + 256 + 88) + 4 * 8


def test_a_prompt_costs_no_more_than_full_attention_and_a_head_at_every_token(any_config: ModelConfig) -> None:
    tokens = any_config.context
    flops = prefill_flops(any_config, tokens)
    assert flops < tokens * count(any_config).forward_flops_per_token
    assert flops > tokens * 2 * (count(any_config).matmul_parameters - any_config.vocab_size * any_config.d_model)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_token_reads_every_matrix_but_an_embedding_of_its_own(precision: Precision) -> None:
    tied, own_head = packed_of(precision), packed_of(precision, tied_head=False)
    assert streamed_bytes(tied) == tied.plan.arena_bytes == streamed_bytes(own_head)
    assert own_head.plan.arena_bytes > streamed_bytes(own_head)


@pytest.mark.parametrize(("context", "where"), [(1024, (50, 1000)), (512, (50, 496)), (64, (32,)), (2, (1,))])
def test_decoding_is_measured_early_and_late_where_the_context_allows(context: int, where: tuple[int, ...]) -> None:
    assert positions(ModelConfig(**{**SMALL, "context": context})) == where


def test_one_stream_near_the_start_comes_first() -> None:
    config = ModelConfig(**{**SMALL, "context": 1024})
    assert cases(config, (1, 8, 16)) == [(1, 50), (1, 1000), (8, 50), (16, 50)]


def test_streams_whose_caches_do_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(**SMALL)
    slot_bytes = count(config).kv_cache_bytes_per_token * config.context
    for free, streams in ((1, [1]), (16 * slot_bytes, [1, 1, 8]), (None, [1, 1, 8, 16])):
        monkeypatch.setattr("nextok.machine.available_memory_bytes", lambda free=free: free)
        assert _affordable(config, (1, 8, 16)) == streams


@pytest.mark.parametrize("context", [2, 12, 256])
def test_steps_are_made_around_the_position_by_all_streams(context: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, set[int]] = {}
    step = NumbaDecoder.step

    def watched(self: NumbaDecoder, slots: Sequence[int], ids: Sequence[int]) -> np.ndarray:
        seen.setdefault(len(slots), set()).update(self.length(slot) for slot in slots)
        return step(self, slots, ids)

    monkeypatch.setattr(NumbaDecoder, "step", watched)
    packed = packed_of(context=context)
    measure_speed(packed, seconds=0.0, threads=1, streams=(1, 2))
    near, *far = positions(packed.config)
    assert max(seen[1]) < context
    assert seen[2] <= seen[1]
    assert near in seen[2] or near - 1 in seen[2]
    assert all(position in seen[1] for position in far)


def test_figures_are_told_one_by_one_and_found_again() -> None:
    told: list[str] = []
    speed = measure_speed(packed_of("int8"), seconds=0.0, threads=1, streams=(1, 3), on_figure=told.append)
    assert told == ["int8: prefill", "int8: 1 at 6", "int8: 3 at 6"]
    assert speed.prefill_tokens == 12
    assert speed.prefill_tokens_per_s == 12 / speed.prefill.median_s
    one, three = speed.at(), speed.at(streams=3)
    assert one is not None and three is not None
    assert one.tokens_per_s == 6 / one.run.median_s
    assert three.tokens_per_s == 18 / three.run.median_s
    assert speed.at(streams=5) is None
    assert speed.decode_bytes_per_s == speed.streamed_bytes * one.tokens_per_s
