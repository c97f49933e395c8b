"""Attention over the cache, against the formula, and where keys and values are put away."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nextok.engine.attention import attend, key_tile, remember, softmax, value_tile
from nextok.engine.layout import padded, tiles_across
from nextok.engine.plan import plan, rotations, shape_record
from nextok.engine.tiles import BF16, F32, TILE_BYTES
from nextok.spec import ModelConfig

from .twin import to_bf16, turned

SIZES: list[dict[str, int]] = [
    {"n_heads": 2, "d_head": 16, "context": 70},
    {"n_heads": 6, "n_kv_heads": 2, "d_head": 33, "context": 33},
    {"n_heads": 3, "n_kv_heads": 1, "d_head": 48, "context": 64},
    {"n_heads": 12, "n_kv_heads": 1, "d_head": 8, "context": 40},
]


class Cache:
    """The cache of a model of one kind of attention, which is asked directly."""

    def __init__(self, kind: int = F32, n_slots: int = 1, **size: object) -> None:
        self.config = ModelConfig(**{"n_layers": 2, "d_model": 16, "vocab_size": 5, **size})
        self.memory = plan(self.config, "fp32")
        self.shapes = shape_record(self.config, self.memory, n_slots=n_slots, past_kind=kind)
        self.vectors = np.ones(self.memory.vector_numbers, np.float32)
        config, self.kind, self.n_slots = self.config, kind, n_slots
        self.tiles = 2 * 2 * n_slots * config.n_kv_heads * tiles_across(config.d_head) * tiles_across(config.context)
        self.past = np.zeros(self.tiles * TILE_BYTES[kind], np.uint8)

    def read(self, layer: int, slots: list[int], positions: list[int], spans: list[int], qkv_MN: NDArray) -> NDArray:
        """Remembers rows and attends from them; returns what each mixes `[M, H K]`. The rows are changed."""
        floats, halves = self.past.view(np.float32), self.past.view(np.uint16)
        slots_M, positions_M = np.array(slots), np.array(positions)
        counts_P = np.array(spans)
        firsts_P = np.cumsum(counts_P) - counts_P
        width = self.config.n_heads * self.config.d_head
        mixed_MN = np.full((len(slots), padded(width)), np.nan, np.float32)
        args = (self.shapes, layer)
        remember(
            *args, self.vectors, self.memory.layers, rotations(self.config), slots_M, positions_M, len(slots), qkv_MN,
            floats, halves,
        )  # fmt: skip
        attend(*args, firsts_P, counts_P, slots_M, positions_M, qkv_MN, self.past.ctypes.data, mixed_MN)
        assert np.isnan(mixed_MN[:, width:]).all()
        return mixed_MN[:, :width]


def random_qkv(config: ModelConfig, rows: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, padded(config.qkv_width))).astype(np.float32)


def formula(config: ModelConfig, qkv_TN: NDArray, kind: int) -> NDArray[np.float64]:
    """Returns softmax(Q K^T / sqrt(K)) V under the causal mask, `[T, H K]`."""
    H, G, K, T = config.n_heads, config.n_kv_heads, config.d_head, len(qkv_TN)
    heads_TNK = qkv_TN[:, : config.qkv_width].astype(np.float64).reshape(T, -1, K)
    q_THK, k_TGK, v_TGK = np.split(heads_TNK, [H, H + G], axis=1)
    if config.qk_norm:
        q_THK, k_TGK = (each / np.sqrt((each**2).mean(-1, keepdims=True) + config.norm_eps) for each in (q_THK, k_TGK))
    if config.position == "rope":
        q_THK, k_TGK = turned(config, q_THK), turned(config, k_TGK)
    if kind == BF16:
        k_TGK, v_TGK = to_bf16(k_TGK).astype(np.float64), to_bf16(v_TGK).astype(np.float64)
    mixed_THK = np.empty((T, H, K))
    for head in range(H):
        group = head // (H // G)
        for t in range(T):
            weights_S = np.exp(k_TGK[: t + 1, group] @ q_THK[t, head] / np.sqrt(K))
            mixed_THK[t, head] = weights_S @ v_TGK[: t + 1, group] / weights_S.sum()
    return mixed_THK.reshape(T, -1)


@pytest.mark.parametrize("kind", [F32, BF16])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("parts", [{}, {"position": "rope", "d_head": 48, "qk_norm": True}], ids=["plain", "turned"])
def test_attention_is_the_formula(kind: int, size: dict, parts: dict) -> None:
    cache = Cache(kind, **{**size, **parts})
    T = cache.config.context
    qkv_MN = random_qkv(cache.config, T)
    expected = formula(cache.config, qkv_MN, kind)
    mixed = cache.read(1, [0] * T, list(range(T)), [3] * (T // 3) + [1] * (T % 3), qkv_MN)
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=3e-6 if kind == F32 else 2e-3)


@pytest.mark.parametrize("kind", [F32, BF16])
@pytest.mark.parametrize("size", SIZES)
def test_queries_alone_and_together_mix_the_same_to_the_last_bit(kind: int, size: dict) -> None:
    together, alone = Cache(kind, **size), Cache(kind, **size)
    T = together.config.context
    qkv_MN = random_qkv(together.config, T)
    whole = together.read(0, [0] * T, list(range(T)), [5] * (T // 5) + [1] * (T % 5), qkv_MN.copy())
    for t in range(T):
        row = alone.read(0, [0], [t], [1], qkv_MN[t : t + 1].copy())
        np.testing.assert_array_equal(row[0], whole[t])
    np.testing.assert_array_equal(together.past, alone.past)


def test_slots_and_layers_are_strangers() -> None:
    cache = Cache(n_slots=3, **SIZES[1])
    own, other = random_qkv(cache.config, 4), random_qkv(cache.config, 4, seed=1)
    expected = Cache(**SIZES[1]).read(0, [0] * 4, [0, 1, 2, 3], [4], own.copy())
    for layer, slot in [(0, 0), (0, 2), (1, 1)]:
        cache.read(layer, [slot] * 4, [0, 1, 2, 3], [4], other.copy())
    np.testing.assert_array_equal(cache.read(0, [1] * 4, [0, 1, 2, 3], [4], own.copy()), expected)


@pytest.mark.parametrize("size", SIZES)
def test_every_coordinate_of_every_key_and_value_has_a_place_of_its_own(size: dict) -> None:
    cache = Cache(n_slots=2, **size)
    config, across, along = cache.config, tiles_across(cache.config.d_head), tiles_across(cache.config.context)
    where = [
        (layer, slot, group, 32 * position, 32 * coordinate)
        for layer in range(2)
        for slot in range(2)
        for group in range(config.n_kv_heads)
        for position in range(along)
        for coordinate in range(across)
    ]
    shape = cache.shapes.view(np.recarray)[0]  # Numba's records have attributes, NumPy's only this way
    keys = [key_tile.py_func(shape, *each) for each in where]
    values = [value_tile.py_func(shape, *each) for each in where]
    assert sorted(map(int, keys + values)) == list(range(cache.tiles))
    assert max(keys) < min(values)


def test_softmax_is_over_what_is_seen_and_the_rest_is_zero() -> None:
    scores_S = np.array([0.0, np.log(3.0), 7.0, np.nan], np.float32)
    softmax(scores_S, 2)
    np.testing.assert_allclose(scores_S, [0.25, 0.75, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("shift", [-1e4, 0.0, 1e4])
def test_softmax_of_extreme_scores_is_finite_and_sums_to_one(shift: float) -> None:
    for seen in (1, 7, 32, 45, 64):
        scores_S = (np.random.default_rng(seen).standard_normal(64) * 50 + shift).astype(np.float32)
        exact = np.exp(scores_S[:seen].astype(np.float64) - scores_S[:seen].max())
        softmax(scores_S, seen)
        np.testing.assert_allclose(scores_S[:seen], exact / exact.sum(), rtol=1e-5, atol=1e-7)
        assert not scores_S[seen:].any()
