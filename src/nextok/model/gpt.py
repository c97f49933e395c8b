"""The decoder-only transformer, from token ids to logits.

    x = tokens[ids] + positions            (or no table, with rotary positions; a table of pairs, if asked for)
    x = x + attention(norm(x))             for each block
    x = x + feed_forward(norm(x))
    logits = head(norm(x))

Axes: B batch, T positions, D width, V vocabulary. The cached decoder (`cached.py`) runs these same modules.
Sources: GPT-2 (Radford et al. 2019); lesson A's TinyGPT is this model with the erf GELU and a head of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextok.errors import InputError
from nextok.model.attention import Attend, Attention
from nextok.model.mlp import FeedForward
from nextok.model.norm import make_norm
from nextok.model.rotary import Rotation, rotation
from nextok.model.taps import NO_TAPS, Replacements, Taps
from nextok.spec import ModelConfig, select_hooks

IGNORED = -100
"""A target that does not count."""


class Embedding(nn.Module):
    """Token vectors, with a vector for each position where positions are learned."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        learned = config.position == "learned"
        self.positions = nn.Embedding(config.context, config.d_model) if learned else None
        self.bigrams = nn.Embedding(config.bigrams, config.d_model) if config.bigrams else None

    def forward(
        self,
        ids_BT: Int[Tensor, "B T"],
        positions: Int[Tensor, "*rows T"],
        taps: Taps,
        before_B: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Returns the start of the residual stream, `[B, T, D]`.

        Args:
            ids_BT: Token ids.
            positions: Where they stand.
            taps: What is read or changed.
            before_B: The id before each row's first, below 0 where there is none; none at all if not given.
        """
        x_BTD = taps("embed.tokens", self.tokens(ids_BT))
        if self.positions is not None:
            x_BTD = x_BTD + taps("embed.positions", self.positions(positions))
        if self.bigrams is not None:
            x_BTD = x_BTD + taps("embed.bigrams", self._pairs(ids_BT, before_B))
        return taps("embed", x_BTD)

    def _pairs(self, ids_BT: Tensor, before_B: Tensor | None) -> Tensor:
        """Returns the vectors of each token with the one before it; a first token has none."""
        assert self.bigrams is not None
        first_B = torch.full_like(ids_BT[:, 0], -1) if before_B is None else before_B
        before_BT = torch.cat([first_B[:, None], ids_BT[:, :-1]], dim=1)
        rows_BT = (before_BT.clamp(min=0) * self.tokens.num_embeddings + ids_BT) % self.bigrams.num_embeddings
        return self.bigrams(rows_BT) * (before_BT >= 0)[..., None]


class Block(nn.Module):
    """One layer: attention, then the feed-forward network, each added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.norm1 = make_norm(config, config.d_model)
        self.attn = Attention(config, layer)
        self.norm2 = make_norm(config, config.d_model)
        self.mlp = FeedForward(config)
        self.norm_first = config.norm_placement == "before"

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], rotate: Rotation | None, attend: Attend | None, taps: Taps
    ) -> Float[Tensor, "B T D"]:
        """Returns the residual stream after this layer, `[B, T, D]`."""
        x_BTD = taps("resid_pre", x_BTD)
        if self.norm_first:
            x_BTD = x_BTD + self.attn(taps("norm1", self.norm1(x_BTD)), rotate, attend, taps.at("attn"))
            x_BTD = taps("resid_mid", x_BTD)
            x_BTD = x_BTD + self.mlp(taps("norm2", self.norm2(x_BTD)), taps.at("mlp"))
        else:
            x_BTD = taps("norm1", self.norm1(x_BTD + self.attn(x_BTD, rotate, attend, taps.at("attn"))))
            x_BTD = taps("resid_mid", x_BTD)
            x_BTD = taps("norm2", self.norm2(x_BTD + self.mlp(x_BTD, taps.at("mlp"))))
        return taps("resid_post", x_BTD)


class GPT(nn.Module):
    """A decoder-only transformer. Make one with `nextok.model.build(config, seed)`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))
        self.final_norm = make_norm(config, config.d_model) if config.has_final_norm else None
        self.head = None if config.tied_head else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self._replacements: Replacements = {}

    def forward(self, ids_BT: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Returns the logits of the next token at every position.

        Raises:
            InputError: if there are no ids, or more than the context; on the CPU, if one is not in the vocabulary.
        """
        return self._run(ids_BT, self.taps())

    def hidden(
        self,
        ids_BT: Int[Tensor, "B T"],
        positions: Int[Tensor, "*rows T"] | None = None,
        *,
        before_B: Int[Tensor, " B"] | None = None,
        attend: Attend | None = None,
        taps: Taps = NO_TAPS,
    ) -> Float[Tensor, "B T D"]:
        """Returns the residual stream after the last norm, `[B, T, D]`.

        Args:
            ids_BT: Token ids.
            positions: Positions `[T]`, or `[B, T]` where rows stand at different places; 0..T-1 if not given.
            before_B: The id before each row's first, below 0 where there is none: for models with vectors of pairs.
            attend: What mixes values in place of plain attention: the decoder's cache.
            taps: What is read or changed on the way.
        """
        if positions is None:
            positions = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        config = self.config
        rotate = rotation(positions, config.d_head, config.rope_base) if config.position == "rope" else None
        x_BTD = self.drop(self.embed(ids_BT, positions, taps, before_B))
        for layer, block in enumerate(self.blocks):
            x_BTD = block(x_BTD, rotate, attend, taps.at(f"blocks.{layer}"))
        return x_BTD if self.final_norm is None else taps("final_norm", self.final_norm(x_BTD))

    def logits(self, x_BTD: Float[Tensor, "B T D"], taps: Taps = NO_TAPS) -> Float[Tensor, "B T V"]:
        """Returns the logits `[B, T, V]` of a residual stream that has passed the last norm."""
        weight_VD = self.embed.tokens.weight if self.head is None else self.head.weight
        logits_BTV = F.linear(x_BTD, weight_VD)
        cap = self.config.logit_softcap
        return taps("logits", cap * torch.tanh(logits_BTV / cap) if cap else logits_BTV)

    def trace(self, ids_BT: Int[Tensor, "B T"], names: Sequence[str]) -> dict[str, Tensor]:
        """Returns the values at the named hook points (patterns such as `blocks.*.attn.pattern` too).

        Asking changes nothing: attention weights are computed beside the fused attention, whose result goes on.

        Raises:
            ConfigError: for a name that this model has not.
        """
        taps = self.taps(select_hooks(self.config, names))
        self._run(ids_BT, taps)
        return {name: taps.recorded[name] for name in taps.record}

    @contextmanager
    def replace(self, replacements: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
        """Within the block, each named value is what its function makes of it: ablation, patching, other masks.

        A replaced `attn.scores`, `.scaled`, `.masked` or `.pattern` makes that layer compute attention step by step.

        Generation obeys too, and gives what whole passes would where a function treats each position alone. It sees
        the positions of one step (often a single one; of a prompt, only the last reaches `logits`), and scores as
        `[1, H, T, S]`, whose queries are the last T of S. What was cached before the block stays as it was.

        The change belongs to the model, not to the thread: every thread that runs the model meanwhile gets it.

        Raises:
            ConfigError: for a name that this model has not.
        """
        chosen = {name: change for key, change in replacements.items() for name in select_hooks(self.config, [key])}
        before = self._replacements
        self._replacements = {**before, **chosen}
        try:
            yield
        finally:
            self._replacements = before

    @property
    def is_changed(self) -> bool:
        """Whether values are being replaced."""
        return bool(self._replacements)

    def taps(self, record: Sequence[str] = ()) -> Taps:
        """Returns taps that make the replacements now active, and record these names."""
        return Taps(record=record, replace=self._replacements) if record or self._replacements else NO_TAPS

    def use_eager_attention(self, *, eager: bool = True) -> None:
        """Computes attention step by step as in the formula, or fused again; equal to 1e-5, slower."""
        for module in self.modules():
            if isinstance(module, Attention):
                module.eager = eager

    def _run(self, ids_BT: Tensor, taps: Taps) -> Tensor:
        check_length(ids_BT.shape[1], self.config.context)
        check_ids(ids_BT, self.config.vocab_size)
        return self.logits(self.hidden(ids_BT, taps=taps), taps)


def check_length(tokens: int, context: int) -> None:
    """Refuses a sequence that is empty or longer than the context.

    Raises:
        InputError: saying both counts.
    """
    if not 1 <= tokens <= context:
        raise InputError(f"The model was given {tokens} tokens; it takes 1 to {context}.", "Crop to the last ones.")


def check_ids(ids_BT: Int[Tensor, "B T"], vocab_size: int) -> None:
    """Refuses an id that is not in the vocabulary. Looks on the CPU alone: an accelerator would have to be waited for.

    Raises:
        InputError: naming the id and the vocabulary.
    """
    if not ids_BT.is_cpu or torch.compiler.is_compiling() or not ids_BT.numel():
        return
    least, largest = (int(id) for id in ids_BT.aminmax())
    if least < 0 or largest >= vocab_size:
        id = least if least < 0 else largest
        raise InputError(f"Token id {id} is not in 0 to {vocab_size - 1}, the model's vocabulary.")


def next_token_loss(
    logits_BTV: Float[Tensor, "B T V"], targets_BT: Int[Tensor, "..."], *, reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Returns the cross-entropy in nats of targets that are already the next tokens; nothing is shifted here.

    Args:
        logits_BTV: `GPT.forward` of the inputs.
        targets_BT: The id that follows each input; `IGNORED` where none counts.
        reduction: `mean` over the targets that count, or `sum`.

    Raises:
        InputError: if the targets are not one a position, as when they were shifted a second time.
    """
    if logits_BTV.shape[:2] != targets_BT.shape:
        raise InputError(
            f"Targets of shape {list(targets_BT.shape)} do not fit logits of {list(logits_BTV.shape)}.",
            "Cut one window of T + 1 ids: inputs = window[:-1], targets = window[1:].",
        )
    return F.cross_entropy(
        logits_BTV.flatten(0, 1).to(torch.promote_types(logits_BTV.dtype, torch.float32)),
        targets_BT.flatten(),
        ignore_index=IGNORED,
        reduction=reduction,
    )
