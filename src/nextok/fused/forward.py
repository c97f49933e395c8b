"""The loss of a model in few passes over memory: what `nextok.model` computes, for training on a CPU.

The model's modules are read for their weights and their parts; the arithmetic is `ops`. Read `model/gpt.py` for the
formulas: this is the same network, and tests hold loss and gradients against it. Matrix products run in float32 or
bfloat16, the residual stream, the norms, the softmax and the loss in float32.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextok.fused.ops import (
    NO_DRAW,
    NOTHING,
    Activate,
    AddAndNorm,
    Attend,
    Draw,
    Dropout,
    HeadLoss,
    LookUp,
    SplitHeads,
    side_by_side,
)
from nextok.model import GPT
from nextok.model.gpt import Block, check_ids, check_length
from nextok.model.rotary import rotation
from nextok.spec import ModelConfig

_LONGEST_PATTERN = 512
"""Positions up to which scores are kept whole; beyond, torch's attention, which never makes them all."""


@runtime_checkable
class Adapted(Protocol):
    """A linear map whose weight is made of several."""

    def merged(self) -> Tensor:
        """Returns the one matrix that does the work of all, differentiable."""
        ...


def fits(config: ModelConfig) -> bool:
    """Whether a model of this config has a fused form: blocks that normalise what they read."""
    return config.norm_placement == "before" and config.mask == "causal"


def fused_loss(
    model: GPT,
    ids_BT: Int[Tensor, "B T"],
    targets_BT: Int[Tensor, "B T"],
    *,
    dtype: torch.dtype = torch.float32,
    scale: float = 1.0,
    dropout: Dropout | None = None,
) -> Float[Tensor, ""]:
    """Returns `scale` times the summed loss of the targets that count, in nats; `backward` fills the gradients.

    Args:
        model: On the CPU, with float32 weights; its config must fit.
        ids_BT: Token ids, int64.
        targets_BT: The token after each, int64; `nextok.model.IGNORED` where none counts.
        dtype: Of matrix products: float32, or bfloat16 where the machine multiplies it fast.
        scale: 1 over the number of targets that count makes it a mean.
        dropout: What is dropped; none: nothing, as in evaluation.

    Raises:
        InputError: for an id that is not in the vocabulary, no ids, or more than the context.
    """
    check_length(ids_BT.shape[1], model.config.context)
    check_ids(ids_BT, model.config.vocab_size)  # kernels do not look where they write
    check_ids(targets_BT.clamp(min=0), model.config.vocab_size)
    return _Pass(model, ids_BT, dtype, dropout).loss(targets_BT, scale)


class _Pass:
    """One forward pass over a batch."""

    def __init__(self, model: GPT, ids_BT: Tensor, dtype: torch.dtype, dropout: Dropout | None) -> None:
        self.model, self.config, self.ids_BT = model, model.config, ids_BT
        self.dtype, self.dropout = dtype, dropout
        self.T = ids_BT.shape[1]
        self.cos_TK, self.sin_TK = _angles(model.config, self.T)
        self.places = 0

    def loss(self, targets_BT: Tensor, scale: float) -> Tensor:
        """Runs the network from ids to loss."""
        model, embed = self.model, self.model.embed
        positions = NOTHING if embed.positions is None else embed.positions.weight[: self.T]
        pairs = NOTHING if embed.bigrams is None else embed.bigrams.weight
        x_ND, delta_ND = NOTHING, LookUp.apply(self.ids_BT, embed.tokens.weight, positions, pairs)
        for block in model.blocks:
            assert isinstance(block, Block)
            x_ND, y_ND = self.add_and_norm(x_ND, delta_ND, block.norm1)
            delta_ND = self.attention(y_ND, block)
            x_ND, y_ND = self.add_and_norm(x_ND, delta_ND, block.norm2)
            hidden_NF = Activate.apply(self.linear(y_ND, block.mlp.up), self.config.mlp)
            delta_ND = self.linear(hidden_NF, block.mlp.down)
        assert model.final_norm is not None
        _, y_ND = self.add_and_norm(x_ND, delta_ND, model.final_norm)
        head = embed.tokens.weight if model.head is None else model.head.weight
        loss: Tensor = HeadLoss.apply(y_ND, head, targets_BT.reshape(-1), self.config.logit_softcap, scale)
        return loss

    def add_and_norm(self, x_ND: Tensor, delta_ND: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        """Adds what a sublayer gave, less what is dropped, and normalises for the next."""
        centred = isinstance(norm, nn.LayerNorm)
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        bias_D = norm.bias if isinstance(norm, nn.LayerNorm) and norm.bias is not None else NOTHING
        stream: tuple[Tensor, Tensor] = AddAndNorm.apply(
            x_ND, delta_ND, norm.weight, bias_D, centred, norm.eps, self.dtype, self.draw(self.T)
        )
        return stream

    def attention(self, y_ND: Tensor, block: Block) -> Tensor:
        """Returns what attention adds to the stream."""
        config, attn = self.config, block.attn
        q_weight = NOTHING if attn.q_norm is None else attn.q_norm.weight
        k_weight = NOTHING if attn.k_norm is None else attn.k_norm.weight
        q_BHTK, k_BGTK, v_BGTK = SplitHeads.apply(
            self.linear(y_ND, attn.qkv),
            q_weight,
            k_weight,
            self.cos_TK,
            self.sin_TK,
            config.norm_eps,
            config.n_heads,
            config.n_kv_heads,
        )
        draw = self.draw(config.n_heads * self.T)
        if self.T <= _LONGEST_PATTERN or draw.threshold:
            mixed_NM = Attend.apply(q_BHTK, k_BGTK, v_BGTK, draw)
        else:
            mixed_NM = side_by_side(
                F.scaled_dot_product_attention(
                    q_BHTK, k_BGTK, v_BGTK, is_causal=True, enable_gqa=config.n_heads != config.n_kv_heads
                )
            )
        return self.linear(mixed_NM, attn.out)

    def linear(self, x_NI: Tensor, linear: nn.Linear) -> Tensor:
        """Returns the product in the dtype of this pass."""
        weight = linear.merged() if isinstance(linear, Adapted) else linear.weight
        bias = None if linear.bias is None else linear.bias.to(self.dtype)
        return F.linear(x_NI, weight.to(self.dtype), bias)

    def draw(self, rows_per_sample: int) -> Draw:
        """Returns the draws of the next place in the model."""
        self.places += 1
        return NO_DRAW if self.dropout is None else self.dropout.at(self.places, rows_per_sample)


def _angles(config: ModelConfig, T: int) -> tuple[Tensor, Tensor]:
    """Returns cos and sin [T, K] with the sign of the partner's share; no rotation is the angle 0."""
    if config.position != "rope":
        return torch.ones(T, config.d_head), torch.zeros(T, config.d_head)
    turned = rotation(torch.arange(T), config.d_head, config.rope_base)
    return torch.cat([turned.cos, turned.cos], -1), torch.cat([-turned.sin, turned.sin], -1)
