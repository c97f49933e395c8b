"""The torch decoder: the same modules as the uncached model, with keys and values of past positions kept.

A slot holds one sequence. Rows of a step may stand at different positions: linear maps run over all rows at once,
attention row by row over exactly what the row has seen, so there is no padding and a row never sees its neighbours.
Memory is taken once: layers x slots x G x context x K, for keys and for values.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float32, Int
from numpy.typing import NDArray
from torch import Tensor

from nextok.decode import Slots
from nextok.errors import InputError
from nextok.model.attention import STEPS, fused_attention, share_heads, stepwise_attention
from nextok.model.gpt import GPT
from nextok.model.taps import Taps


class TorchDecoder(Slots):
    """Decodes with a key-value cache behind the `Decoder` protocol of `nextok.decode`.

    What `GPT.replace` changes is changed here too, for the calls within its block; attention points row by row.

    Args:
        model: The model; it is put into evaluation mode and not changed otherwise.
        n_slots: Sequences that can be decoded at once.

    Raises:
        InputError: if the model has no causal mask, since its past would depend on its future.
    """

    def __init__(self, model: GPT, n_slots: int = 1) -> None:
        config = model.config
        if config.mask != "causal":
            raise InputError("A model without the causal mask cannot generate: its past depends on its future.")
        super().__init__(n_slots, config.context, config.vocab_size)
        self.model = model.eval()
        weight = model.embed.tokens.weight
        shape = (config.n_layers, n_slots, config.n_kv_heads, config.context, config.d_head)
        self._keys_LBGSK = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        self._values_LBGSK = torch.zeros_like(self._keys_LBGSK)

    def prefill(
        self, slot: int, ids_T: Sequence[int] | Int[np.ndarray, " T"], *, all_positions: bool = False
    ) -> Float32[np.ndarray, " V"] | Float32[np.ndarray, "T V"]:
        """Appends the ids to the slot; returns the logits after the last one `[V]`, or after each `[T, V]`.

        Raises:
            PromptError: if there are no ids, one is not in the vocabulary, or they do not fit into the context.
        """
        ids_1T = self._to_device(self._checked_ids(ids_T)[None])
        start, T = self.length(slot), ids_1T.shape[1]
        self._check_room([slot], T)
        positions_T = torch.arange(start, start + T, device=ids_1T.device)
        taps = self.model.taps()

        def attend(layer: int, q_1HTK: Tensor, k_1GTK: Tensor, v_1GTK: Tensor, taps: Taps) -> Tensor:
            return self._attend_row(layer, slot, start, q_1HTK, k_1GTK, v_1GTK, taps)

        with torch.inference_mode():
            x_1TD = self.model.hidden(
                ids_1T, positions_T, before_B=self._to_device(self._last_ids([slot])), attend=attend, taps=taps
            )
            logits_1TV = self.model.logits(x_1TD if all_positions else x_1TD[:, -1:], taps)
        self._hold(slot, ids_1T[0].cpu().numpy())
        return _to_numpy(logits_1TV[0] if all_positions else logits_1TV[0, 0])

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Float32[np.ndarray, "B V"]:
        """Appends one id to each of the slots (all different); returns the logits after it, a row a slot.

        Raises:
            PromptError: if an id is not in the vocabulary, or a slot has no room left.
        """
        assert len(slots) == len(ids), f"slots {slots} and ids {ids}: one id for each slot"
        self._check_room(slots, 1)
        starts = [self._lengths[slot] for slot in slots]
        ids_B1 = self._to_device(self._checked_ids(ids)[:, None])
        positions_B1 = torch.tensor(starts, device=ids_B1.device)[:, None]
        taps = self.model.taps()

        def attend(layer: int, q_BH1K: Tensor, k_BG1K: Tensor, v_BG1K: Tensor, taps: Taps) -> Tensor:
            rows = zip(slots, starts, q_BH1K.split(1), k_BG1K.split(1), v_BG1K.split(1), strict=True)
            return torch.cat([self._attend_row(layer, slot, start, q, k, v, taps) for slot, start, q, k, v in rows])

        with torch.inference_mode():
            x_B1D = self.model.hidden(
                ids_B1, positions_B1, before_B=self._to_device(self._last_ids(slots)), attend=attend, taps=taps
            )
            logits_B1V = self.model.logits(x_B1D, taps)
        for slot, id in zip(slots, ids, strict=True):
            self._hold(slot, [id])
        return _to_numpy(logits_B1V[:, 0])

    def _copy_cache(self, source: int, target: int, positions: slice) -> None:
        for cache_LBGSK in (self._keys_LBGSK, self._values_LBGSK):
            cache_LBGSK[:, target, :, positions] = cache_LBGSK[:, source, :, positions]

    def _attend_row(
        self, layer: int, slot: int, start: int, q_1HTK: Tensor, k_1GTK: Tensor, v_1GTK: Tensor, taps: Taps
    ) -> Tensor:
        """Stores one row's keys and values, and mixes the values of everything the row has seen."""
        stop = start + q_1HTK.shape[2]
        self._keys_LBGSK[layer, slot, :, start:stop] = k_1GTK[0]
        self._values_LBGSK[layer, slot, :, start:stop] = v_1GTK[0]
        k_1GSK = self._keys_LBGSK[layer, slot : slot + 1, :, :stop]
        v_1GSK = self._values_LBGSK[layer, slot : slot + 1, :, :stop]
        k_1HSK, v_1HSK = share_heads(k_1GSK, q_1HTK.shape[1]), share_heads(v_1GSK, q_1HTK.shape[1])
        if taps.replaces(*STEPS):
            return stepwise_attention(q_1HTK, k_1HSK, v_1HSK, causal=True, dropout=0.0, taps=taps)
        return fused_attention(q_1HTK, k_1HSK, v_1HSK, causal=True)

    def _to_device(self, ids: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(ids).to(self._keys_LBGSK.device)


def _to_numpy(logits: Tensor) -> NDArray[np.float32]:
    return logits.float().cpu().numpy()
