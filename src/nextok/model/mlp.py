"""The feed-forward network of a block: up to F, through the activation, back down to D."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nextok.model.taps import Taps
from nextok.spec import ModelConfig


class FeedForward(nn.Module):
    """Each position on its own: D -> F -> D. With SwiGLU the first matrix makes the gate, then the value."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.mlp
        self.up = nn.Linear(config.d_model, config.up_width, bias=config.bias)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Float[Tensor, "B T D"], taps: Taps) -> Float[Tensor, "B T D"]:
        """Returns what this layer adds to the residual stream, `[B, T, D]`."""
        post_BTF = taps("post", self._activate(taps("pre", self.up(x_BTD))))
        return taps("out", self.drop(self.down(post_BTF)))

    def _activate(self, pre_BTF: Tensor) -> Tensor:
        if self.kind == "swiglu":
            gate_BTF, value_BTF = pre_BTF.chunk(2, dim=-1)
            return F.silu(gate_BTF) * value_BTF
        if self.kind == "relu":
            return F.relu(pre_BTF)
        if self.kind == "relu2":
            return F.relu(pre_BTF).square()
        return F.gelu(pre_BTF, approximate="tanh" if self.kind == "gelu_tanh" else "none")
