"""Decoding with a cache: keys and values of past positions are kept, so a new token costs one position, not all.

They stay valid because of the mask: nothing a position computes depends on what follows it.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float32
from numpy.typing import NDArray

from nextok.decode import Slots
from nextok.errors import InputError
from nextok.reference.dialects import Dialect
from nextok.reference.gpt import (
    GPT2,
    Weights,
    check_supported,
    join_heads,
    linear,
    norm,
    share_heads,
    split_heads,
    unembed,
)
from nextok.reference.ops import ACTIVATIONS, Array, softmax
from nextok.spec import ModelConfig

Ids = Sequence[int] | NDArray[np.integer]


class NumpyDecoder(Slots):
    """The NumPy model behind the `Decoder` protocol of `nextok.decode`; any dtype inside, float32 logits out.

    Args:
        config: As for `nextok.reference.forward`, with the causal mask.
        weights: By native name.
        n_slots: Sequences that can be decoded side by side.
        dialect: What of the arithmetic is not GPT-2's.

    Raises:
        ModelConfigError: for a model this room does not write out.
        InputError: for a model without the causal mask.
    """

    def __init__(self, config: ModelConfig, weights: Weights, n_slots: int = 1, dialect: Dialect = GPT2) -> None:
        check_supported(config)
        if config.mask != "causal":
            raise InputError("A model without the causal mask cannot generate: its past depends on its future.")
        super().__init__(n_slots, config.context, config.vocab_size)
        self._config, self._weights, self._dialect = config, weights, dialect
        shape = (n_slots, config.n_layers, config.n_kv_heads, config.context, config.d_head)
        self._keys = np.zeros(shape, weights["embed.tokens.weight"].dtype)
        self._values = np.zeros_like(self._keys)

    def prefill(
        self, slot: int, ids_T: Ids, *, all_positions: bool = False
    ) -> Float32[np.ndarray, " V"] | Float32[np.ndarray, "T V"]:
        """Appends the ids to the slot; returns the logits after the last one `[V]`, or after each `[T, V]`.

        Raises:
            PromptError: if there are no ids, one is not in the vocabulary, or they do not fit into the context.
        """
        ids_T = self._checked_ids(ids_T)
        self._check_room([slot], len(ids_T))
        logits_TV = self._read(slot, ids_T, last_only=not all_positions).astype(np.float32)
        return logits_TV if all_positions else logits_TV[-1]

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Float32[np.ndarray, "B V"]:
        """Appends one id to each of the slots (all different); returns the logits after it, a row a slot.

        Raises:
            PromptError: if an id is not in the vocabulary, or a slot has no room left.
        """
        assert len(slots) == len(ids), f"slots {slots} and ids {ids}: one id for each slot"
        self._check_room(slots, 1)
        ids_B1 = self._checked_ids(ids)[:, None]
        rows = [self._read(slot, ids_1, last_only=True) for slot, ids_1 in zip(slots, ids_B1, strict=True)]
        return np.concatenate(rows).astype(np.float32)

    def _copy_cache(self, source: int, target: int, positions: slice) -> None:
        for cache in (self._keys, self._values):
            cache[target, :, :, positions] = cache[source, :, :, positions]

    def _read(self, slot: int, ids_T: NDArray[np.int64], *, last_only: bool) -> Array:
        """Appends the ids; returns the logits after each of them, or a single row, in the weights' own dtype."""
        w, config, start = self._weights, self._config, self._lengths[slot]
        stop = start + len(ids_T)
        x_TD: Array = w["embed.tokens.weight"][ids_T] + w["embed.positions.weight"][start:stop]
        for layer in range(config.n_layers):
            x_TD = self._add(x_TD, f"blocks.{layer}.norm1", partial(self._attention, slot, layer, start))
            x_TD = self._add(x_TD, f"blocks.{layer}.norm2", partial(self._feed_forward, layer))
        self._hold(slot, ids_T)
        x_TD = x_TD[-1:] if last_only else x_TD
        return unembed(config, w, self._norm("final_norm", x_TD) if config.has_final_norm else x_TD)

    def _add(self, x_TD: Array, norm_name: str, sublayer: Callable[[Array], Array]) -> Array:
        if self._config.norm_placement == "before":
            return x_TD + sublayer(self._norm(norm_name, x_TD))
        return self._norm(norm_name, x_TD + sublayer(x_TD))

    def _feed_forward(self, layer: int, x_TD: Array) -> Array:
        activation, _ = ACTIVATIONS[self._config.mlp]
        hidden_TF = activation(linear(self._weights, f"blocks.{layer}.mlp.up", x_TD))
        return linear(self._weights, f"blocks.{layer}.mlp.down", hidden_TF)

    def _attention(self, slot: int, layer: int, start: int, x_TD: Array) -> Array:
        """Stores the new keys and values, and lets each new query look at itself and everything before."""
        name, stop, config = f"blocks.{layer}.attn", start + len(x_TD), self._config
        q_1HTK, k_1GTK, v_1GTK = split_heads(linear(self._weights, f"{name}.qkv", x_TD)[None], config)
        self._keys[slot, layer, :, start:stop], self._values[slot, layer, :, start:stop] = k_1GTK[0], v_1GTK[0]
        keys_1HSK, values_1HSK = (
            share_heads(cache[slot : slot + 1, layer, :, :stop], config) for cache in (self._keys, self._values)
        )
        scaled_1HTS = q_1HTK @ keys_1HSK.swapaxes(-1, -2) / math.sqrt(config.d_head)
        seen_TS = np.arange(stop) <= np.arange(start, stop)[:, None]
        mixed_1HTK = softmax(np.where(seen_TS, scaled_1HTS, self._dialect.masked_score)) @ values_1HSK
        return linear(self._weights, f"{name}.out", join_heads(mixed_1HTK)[0])

    def _norm(self, name: str, x: Array) -> Array:
        return norm(self._config, self._weights, name, x, self._dialect)
