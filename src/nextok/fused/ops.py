"""The kernels as operations that torch can differentiate.

Each does in one pass over memory what the modules of `nextok.model` do in several, and keeps for the way back only
what it cannot compute again cheaply. Axes as in the kernels' files; a missing tensor is an empty one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nextok import rng
from nextok.fused import activation, heads, lookup, pattern, rows, surprise

_LOGITS_BYTES = 1 << 25  # logits and their gradient are made in chunks of at most this, whatever the vocabulary


@dataclass(frozen=True, slots=True)
class Dropout:
    """What is dropped: a function of the seed, the place in the model, and the number of the sample in the run.

    So it is the same however a batch is cut into micro-batches or shared out among processes.
    """

    probability: float
    seed: int
    first_sample: int

    def at(self, place: int, rows_per_sample: int) -> "Draw":
        """Returns the draws of one place in the model, for tensors with this many rows a sample."""
        key = np.uint32(rng.key(self.seed, "dropout", place) & 0xFFFFFFFF)
        threshold = np.uint32(min(2**32 - 1, round(self.probability * 2**32)))
        return Draw(key, np.uint64(self.first_sample * rows_per_sample), threshold)


@dataclass(frozen=True, slots=True)
class Draw:
    """Key, number of the first row, and the share of 2^32 that is dropped: as the kernels take them."""

    key: np.uint32 = np.uint32(0)
    first_row: np.uint64 = np.uint64(0)
    threshold: np.uint32 = np.uint32(0)


NO_DRAW = Draw()
NOTHING = torch.empty(0)


def memory(tensor: Tensor) -> NDArray[Any]:
    """Returns the tensor's own memory: float32 or int64, or the bits of bfloat16 as int16."""
    plain = tensor.detach()
    return plain.view(torch.int16).numpy() if plain.dtype is torch.bfloat16 else plain.numpy()


def _rows(tensor: Tensor) -> Tensor:
    """Returns the tensor with two axes, also where it is the empty one."""
    return tensor if tensor.ndim == 2 else tensor.view(0, 0)


class LookUp(Function):
    """(ids_BT, tokens_VD, positions_TD, pairs_PD) -> x_ND in float32. An empty table adds nothing."""

    @staticmethod
    def forward(ctx: Any, ids_BT: Tensor, tokens_VD: Tensor, positions_TD: Tensor, pairs_PD: Tensor) -> Tensor:
        """Returns the start of the residual stream."""
        ids_N, T = ids_BT.reshape(-1), ids_BT.shape[1]
        x_ND = torch.empty(len(ids_N), tokens_VD.shape[1])
        tables = (tokens_VD, _rows(positions_TD), _rows(pairs_PD))
        lookup.look_up(memory(ids_N), T, *(memory(table) for table in tables), memory(x_ND))
        ctx.save_for_backward(ids_N)
        ctx.T, ctx.shapes = T, [table.shape for table in tables]
        return x_ND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_x_ND: Tensor) -> Any:
        """Returns the gradients of the tables."""
        (ids_N,) = ctx.saved_tensors
        tables = [torch.zeros(shape) for shape in ctx.shapes]
        lookup.look_up_backward(memory(ids_N), ctx.T, memory(d_x_ND.contiguous()), *(memory(table) for table in tables))
        wanted = (table if table.numel() else None for table in tables)
        return (None, *wanted)


class AddAndNorm(Function):
    """(x, delta, weight, bias) -> (x + delta in float32, its norm in the dtype asked for). An empty x is zero."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        delta_ND: Tensor,
        weight_D: Tensor,
        bias_D: Tensor,
        centred: bool,  # noqa: FBT001 - torch's functions take no keywords
        eps: float,
        dtype: torch.dtype,
        draw: Draw,
    ) -> tuple[Tensor, Tensor]:
        """Returns the stream and what its norm is."""
        N, D = delta_ND.shape
        sum_ND, out_ND = torch.empty(N, D), torch.empty(N, D, dtype=dtype)
        mean_N, inverse_N = torch.empty(N), torch.empty(N)
        read = (_rows(x_ND), delta_ND, weight_D, bias_D)
        written = (sum_ND, out_ND, mean_N, inverse_N)
        rows.add_and_norm(
            *(memory(each) for each in read),
            centred,
            np.float32(eps),
            draw.key,
            draw.first_row,
            draw.threshold,
            *(memory(each) for each in written),
        )
        ctx.save_for_backward(sum_ND, weight_D, mean_N, inverse_N)
        ctx.centred, ctx.draw, ctx.delta_dtype = centred, draw, delta_ND.dtype
        ctx.has_x, ctx.has_bias = x_ND.numel() > 0, bias_D.numel() > 0
        ctx.set_materialize_grads(False)
        return sum_ND, out_ND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_sum_ND: Tensor | None, d_out_ND: Tensor) -> Any:
        """Returns the gradients of x, delta, weight and bias."""
        sum_ND, weight_D, mean_N, inverse_N = ctx.saved_tensors
        N, D = sum_ND.shape
        blocks = -(-N // rows.BLOCK)
        d_x_ND, d_delta_ND = torch.empty(N, D), torch.empty(N, D, dtype=ctx.delta_dtype)
        d_weight_CD, d_bias_CD = torch.zeros(2, blocks, D)
        d_sum = _rows(NOTHING) if d_sum_ND is None else d_sum_ND.contiguous()
        rows.add_and_norm_backward(
            memory(d_out_ND.contiguous()),
            memory(d_sum),
            *(memory(each) for each in (sum_ND, weight_D, mean_N, inverse_N)),
            ctx.centred,
            ctx.draw.key,
            ctx.draw.first_row,
            ctx.draw.threshold,
            *(memory(each) for each in (d_x_ND, d_delta_ND, d_weight_CD, d_bias_CD)),
        )
        d_bias_D = d_bias_CD.sum(0) if ctx.has_bias else None
        return (d_x_ND if ctx.has_x else None, d_delta_ND, d_weight_CD.sum(0), d_bias_D, None, None, None, None)


class SplitHeads(Function):
    """(qkv rows, q and k norm weights, cos, sin) -> q_BHTK, k_BGTK, v_BGTK."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv_NM: Tensor,
        q_weight_K: Tensor,
        k_weight_K: Tensor,
        cos_TK: Tensor,
        sin_TK: Tensor,
        eps: float,
        H: int,
        G: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values by head, normalised and turned."""
        (T, K), N = cos_TK.shape, len(qkv_NM)
        B = N // T
        q_BHTK = torch.empty(B, H, T, K, dtype=qkv_NM.dtype)
        k_BGTK, v_BGTK = torch.empty(2, B, G, T, K, dtype=qkv_NM.dtype)
        inverse_NJ = torch.empty(N, H + G)
        heads.split_heads(
            memory(qkv_NM.view(-1)),
            *(memory(each) for each in (q_weight_K, k_weight_K)),
            np.float32(eps),
            *(memory(each) for each in (cos_TK, sin_TK)),
            H,
            G,
            *(memory(each.view(-1)) for each in (q_BHTK, k_BGTK, v_BGTK)),
            memory(inverse_NJ),
        )
        ctx.save_for_backward(qkv_NM, q_weight_K, k_weight_K, cos_TK, sin_TK, inverse_NJ)
        return q_BHTK, k_BGTK, v_BGTK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_q_BHTK: Tensor, d_k_BGTK: Tensor, d_v_BGTK: Tensor) -> Any:
        """Returns the gradients of the rows and of the norms' weights."""
        qkv_NM, q_weight_K, *rest = ctx.saved_tensors
        B, H, _, K = d_q_BHTK.shape
        d_qkv_NM = torch.empty_like(qkv_NM)
        d_q_weight_BK, d_k_weight_BK = torch.zeros(2, B, K)
        heads.split_heads_backward(
            *(memory(each.reshape(-1)) for each in (d_q_BHTK, d_k_BGTK, d_v_BGTK, qkv_NM)),
            *(memory(each) for each in (q_weight_K, *rest)),
            H,
            d_k_BGTK.shape[1],
            memory(d_qkv_NM.view(-1)),
            *(memory(each) for each in (d_q_weight_BK, d_k_weight_BK)),
        )
        normed = q_weight_K.numel() > 0
        d_weights = (d_q_weight_BK.sum(0), d_k_weight_BK.sum(0)) if normed else (None, None)
        return (d_qkv_NM, *d_weights, None, None, None, None, None)


class Attend(Function):
    """(q_BHTK, k_BGTK, v_BGTK) -> the heads' mixed values side by side, [N, H K].

    Scores are whole matrix products, since those run in bfloat16 at full speed, where torch's own CPU attention falls
    back to slow loops on its way back. They take B H T^2 numbers, which is why long contexts go elsewhere.
    """

    @staticmethod
    def forward(ctx: Any, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, draw: Draw) -> Tensor:
        """Returns softmax(Q K^T / sqrt(K) + causal mask) V."""
        B, H, T, K = q_BHTK.shape
        G = k_BGTK.shape[1]
        q_ZRK, k_ZSK, v_ZSK = q_BHTK.view(B * G, H // G * T, K), k_BGTK.view(B * G, T, K), v_BGTK.view(B * G, T, K)
        pattern_ZRS = torch.bmm(q_ZRK, k_ZSK.mT)
        left_ZRS = torch.empty_like(pattern_ZRS) if draw.threshold else pattern_ZRS
        arguments = (np.float32(K**-0.5), draw.key, draw.first_row, draw.threshold)
        pattern.pattern(memory(pattern_ZRS), *arguments, memory(left_ZRS))
        ctx.save_for_backward(q_ZRK, k_ZSK, v_ZSK, pattern_ZRS, left_ZRS)
        ctx.arguments, ctx.shape = arguments, (B, H, G, T, K)
        return side_by_side(torch.bmm(left_ZRS, v_ZSK).view(B, H, T, K))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_NM: Tensor) -> Any:
        """Returns the gradients of queries, keys and values."""
        q_ZRK, k_ZSK, v_ZSK, pattern_ZRS, left_ZRS = ctx.saved_tensors
        B, H, G, T, K = ctx.shape
        d_ZRK = d_NM.view(B, T, H, K).transpose(1, 2).contiguous().view(B * G, H // G * T, K)
        d_v_ZSK = torch.bmm(left_ZRS.mT, d_ZRK)
        d_ZRS = torch.bmm(d_ZRK, v_ZSK.mT)
        pattern.pattern_backward(memory(pattern_ZRS), *ctx.arguments, memory(d_ZRS))
        d_q_ZRK, d_k_ZSK = torch.bmm(d_ZRS, k_ZSK), torch.bmm(d_ZRS.mT, q_ZRK)
        return d_q_ZRK.view(B, H, T, K), d_k_ZSK.view(B, G, T, K), d_v_ZSK.view(B, G, T, K), None


def side_by_side(mixed_BHTK: Tensor) -> Tensor:
    """Returns the heads of each position one after another, [N, H K]."""
    return mixed_BHTK.transpose(1, 2).flatten(2).flatten(0, 1)


class Activate(Function):
    """(pre rows, kind) -> post rows."""

    @staticmethod
    def forward(ctx: Any, pre_NM: Tensor, kind: str) -> Tensor:
        """Returns the activation, half as wide where it is gated."""
        width = pre_NM.shape[1] // (2 if kind == "swiglu" else 1)
        post_NF = torch.empty(len(pre_NM), width, dtype=pre_NM.dtype)
        activation.activate(memory(pre_NM), activation.KINDS[kind], memory(post_NF))
        ctx.save_for_backward(pre_NM)
        ctx.kind = kind
        return post_NF

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_post_NF: Tensor) -> Any:
        """Returns the gradient before the activation."""
        (pre_NM,) = ctx.saved_tensors
        d_pre_NM = torch.empty_like(pre_NM)
        kind = activation.KINDS[ctx.kind]
        activation.activate_backward(memory(d_post_NF.contiguous()), memory(pre_NM), kind, memory(d_pre_NM))
        return d_pre_NM, None


class HeadLoss(Function):
    """(x_ND, head weight, targets_N, soft-cap, scale) -> scale times the summed loss, in float32.

    Logits live a chunk of rows at a time, and their gradient takes their place: memory does not grow with the
    vocabulary. Targets below 0 do not count.
    """

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, cap: float, scale: float) -> Tensor:
        """Returns the loss; the gradients are made at once, since the logits are not kept."""
        weight = weight_VD.to(x_ND.dtype)
        loss_N = torch.empty(len(x_ND))
        d_x_ND, d_weight_VD = torch.empty_like(x_ND), torch.zeros(weight_VD.shape)
        chunk = max(1, _LOGITS_BYTES // (x_ND.element_size() * len(weight)))
        for first in range(0, len(x_ND), chunk):
            part = slice(first, first + chunk)
            logits_NV = x_ND[part] @ weight.mT
            surprise.surprise(
                memory(logits_NV), memory(targets_N[part]), np.float32(cap), np.float32(scale), memory(loss_N[part])
            )
            torch.mm(logits_NV, weight, out=d_x_ND[part])
            d_weight_VD += logits_NV.mT @ x_ND[part]
        ctx.save_for_backward(d_x_ND, d_weight_VD)
        return loss_N.sum() * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Returns the gradients of x and the head."""
        d_x_ND, d_weight_VD = ctx.saved_tensors
        factor = gradient.item()
        if factor != 1.0:
            d_x_ND, d_weight_VD = d_x_ND * factor, d_weight_VD * factor
        return d_x_ND, d_weight_VD, None, None, None
