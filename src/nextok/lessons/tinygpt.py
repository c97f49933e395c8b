"""Lesson A's TinyGPT: its parameters and operations, counted, and its attention alone.

How it generates is `generation`, how it learns `training`.
Axes: B batch, T positions, D width, H heads, S keys, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from nextok.decode import SamplingConfig, generate
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.model import GPT, Taps, TorchDecoder, build
from nextok.spec import ModelConfig, count, parameter_shapes, preset_config

SEED = 42
PROMPT = (5, 12, 3)
_PARTS = {
    "token embedding V d": "embed.tokens.",
    "position embedding T d": "embed.positions.",
    "attention per block": "blocks.0.attn.",
    "FFN per block": "blocks.0.mlp.",
    "two LayerNorms per block": "blocks.0.norm",
    "block": "blocks.0.",
    "final LayerNorm": "final_norm.",
    "head V d": "head.",
}
_PART_SIZES = (3_200, 512, 16_640, 33_088, 256, 49_984, 128, 3_200)


def tiny_gpt(**parts: object) -> GPT:
    """Returns lesson A's model under torch.manual_seed(42), with single parts changed."""
    return build(tiny_config(**parts), SEED)


def tiny_config(**parts: object) -> ModelConfig:
    """Returns lesson A's config with single parts changed, widths as they are."""
    return dataclasses.replace(preset_config("lesson-a"), **parts)  # type: ignore[arg-type]


def greedy(model: GPT, ids: Sequence[int], new_tokens: int) -> tuple[int, ...]:
    """Returns the ids and their greedy continuation, by the cached decoder; past the context the window slides."""
    config = SamplingConfig(temperature=0, max_new_tokens=new_tokens, overflow="slide")
    [[generation]] = generate(TorchDecoder(model), None, [list(ids)], config)
    return (*ids, *generation.ids)


def lesson_loop(model: GPT, ids: Sequence[int], new_tokens: int) -> list[Tensor]:
    """Returns the logits `[V]` of each step of the lesson's loop, which reads everything anew for every token."""
    ids, steps = list(ids), []
    with torch.inference_mode():
        for _ in range(new_tokens):
            logits_V = model(torch.tensor([ids[-model.config.context :]]))[0, -1]
            ids.append(int(logits_V.argmax()))
            steps.append(logits_V)
    return steps


def _parameters() -> Worked:
    shapes = {name: math.prod(shape) for name, shape in parameter_shapes(tiny_config()).items()}
    tensors = {name: tensor.numel() for name, tensor in tiny_gpt().named_parameters()}
    counts = count(tiny_config())
    shares = tuple(100 * counts.parameters_by_part[part] / counts.parameters for part in ("feed-forward", "attention"))
    return Worked(
        question="TinyGPT has V 50, d 64, 4 heads, 2 layers, T 8 and a head of its own: how many parameters?",
        answer="107,008: two blocks of 49,984, the tables 3,200 and 512, the final LayerNorm 128, the head 3,200.",
        facts=(
            *(
                Fact(what=part, expected=expected, computed=size)
                for part, expected, size in zip(_PARTS, _PART_SIZES, _part_sizes(shapes), strict=True)
            ),
            Fact(what="blocks, together", expected=99_968, computed=_blocks(shapes)),
            Fact(what="total", expected=107_008, computed=counts.parameters),
            Fact(what="each part again, in the tensors", expected=_PART_SIZES, computed=_part_sizes(tensors)),
            Fact(what="total, in the tensors", expected=107_008, computed=sum(tensors.values())),
            Fact(
                what="total with a tied head", expected=103_808, computed=count(tiny_config(tied_head=True)).parameters
            ),
            Fact(what="FFN, attention (% of all)", expected=(61.8, 31.1), computed=shares, tolerance=0.05),
            Fact(what="logits of a (2, 8) batch", expected=(2, 8, 50), computed=_logits_shape(tiny_gpt(), 2, 8)),
        ),
        why=(
            "Attention: qkv 64 x 192 + 192, out 64 x 64 + 64. FFN: 64 x 256 + 256, then 256 x 64 + 64. "
            "Each LayerNorm has a gain and a bias of 64. V, d, heads, layers and T must be given first, with d "
            "divisible by heads; the number of heads does not change the count. "
            "A tied head reads the token table and saves V d = 3,200."
        ),
        grids=(_parameter_grid(shapes),),
        corrections=(
            "Printed: the variable is called `gpt2`. Right: it holds a TinyGPT of 107,008 parameters; GPT-2 small has "
            f"{spelled(count(preset_config('gpt2')).parameters)}.",
        ),
    )


def _flops() -> Worked:
    counts = count(tiny_config())
    shapes = parameter_shapes(tiny_config())
    return Worked(
        question="A forward pass is a chain of matrix products: how many operations does training take for a token?",
        answer="621,312 at full context: forward 207,104, and the backward pass twice that.",
        facts=(
            Fact(what="parameters that multiply", expected=101_504, computed=counts.matmul_parameters),
            Fact(what="training FLOP per token, exact", expected=621_312, computed=counts.training_flops_per_token),
            Fact(what="training FLOP per token, 6 N", expected=642_048, computed=counts.training_flops_per_token_6n),
            Fact(what="forward FLOP per token", expected=207_104, computed=counts.forward_flops_per_token),
            Fact(
                what="forward FLOP of 8 tokens, counted by torch as they ran",
                expected=8 * 207_104,
                computed=_measured_flops(8),
            ),
        ),
        why=(
            "A weight costs a multiplication and an addition forward, and twice that backward: 6 in all. "
            "Attention's own products, scores and mixing, have no weights: 4 T d a layer, with all T = 8 keys, since "
            "masked ones are computed too. "
            "6 N leaves those out and counts the two tables, which are looked up and not multiplied."
        ),
        grids=(_product_grid(shapes),),
    )


def _milestone_1() -> Worked:
    x_BTD = torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(SEED))
    changed_BTD = torch.cat([x_BTD[:, :5], -x_BTD[:, 5:]], dim=1)
    out_BTD, pattern_BHTS = _attend(x_BTD)
    change_BT = (_attend(changed_BTD)[0] - out_BTD).abs().amax(-1)
    size = sum(tensor.numel() for name, tensor in tiny_gpt().named_parameters() if name.startswith("blocks.0.attn."))
    return Worked(
        question="CausalSelfAttention(64, 4) reads a (2, 8, 64) batch: what shape comes out, and what must hold?",
        answer="(2, 8, 64) again; rows of weights sum to 1, row 0 is one-hot, nothing depends on a later token.",
        facts=(
            Fact(what="shape out", expected=(2, 8, 64), computed=tuple(out_BTD.shape)),
            Fact(what="parameters", expected=16_640, computed=size),
            Fact(what="shape of the weights", expected=(2, 4, 8, 8), computed=tuple(pattern_BHTS.shape)),
            Fact(what="rows sum to 1", expected=0.0, computed=_gap(pattern_BHTS.sum(-1), 1.0), tolerance=1e-6),
            Fact(what="row 0 is 1 on itself", expected=True, computed=bool((pattern_BHTS[:, :, 0, 0] == 1).all())),
            Fact(what="weight on the future", expected=0.0, computed=pattern_BHTS.triu(1).max().item()),
            Fact(what="change at 0-4 when 5-7 change", expected=0.0, computed=change_BT[:, :5].max().item()),
            Fact(what="all of 5-7 change", expected=True, computed=bool((change_BT[:, 5:] > 1e-3).all())),
            Fact(
                what="change of row 0 without row 1",
                expected=0.0,
                computed=_gap(_attend(x_BTD[:1])[0], out_BTD[:1]),
                tolerance=1e-6,
            ),
        ),
        why=(
            "64 x 192 + 192 for queries, keys and values and 64 x 64 + 64 for the output make 16,640. "
            "A right shape proves little: attention without a mask, or with batch rows mixed up, has the same one. "
            "The invariants tell them apart, and need no reference answer."
        ),
    )


def _part_sizes(sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the sizes of `_PARTS` out of those of all parameters by name."""
    return tuple(sum(size for name, size in sizes.items() if name.startswith(prefix)) for prefix in _PARTS.values())


def _blocks(sizes: Mapping[str, int]) -> int:
    return sum(size for name, size in sizes.items() if name.startswith("blocks."))


def _parameter_grid(sizes: Mapping[str, int]) -> Grid:
    rows = [(name, spelled(size)) for name, size in sizes.items() if not name.startswith("blocks.1.")]
    return Grid(title="every parameter; block 1 is as block 0", columns=("name", "numbers"), rows=tuple(rows))


def _logits_shape(model: GPT, B: int, T: int) -> tuple[int, ...]:
    return tuple(model(torch.zeros(B, T, dtype=torch.int64)).shape)


def _product_grid(shapes: Mapping[str, tuple[int, ...]]) -> Grid:
    """Returns the forward operations of a token, product by product; both blocks are alike."""
    config = tiny_config()
    own = {"scores Q K^T": 2 * config.context * config.d_model, "weights times V": 2 * config.context * config.d_model}
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2 and "embed" not in name}
    weighed = {name: 2 * math.prod(shape) for name, shape in matrices.items() if "blocks.1" not in name}
    return Grid(
        title="forward FLOP of a token (block 1 is as block 0)",
        columns=("product", "FLOP"),
        rows=tuple((name, spelled(flops)) for name, flops in (*weighed.items(), *own.items())),
    )


def _measured_flops(tokens: int) -> int:
    """Returns the operations of a forward pass as torch counts them, product by product."""
    model = tiny_gpt()
    model.use_eager_attention()  # products inside fused attention are not seen
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, tokens, dtype=torch.int64))
    return counter.get_total_flops()


def _attend(x_BTD: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what the first attention of TinyGPT gives out for an input, and its weights `[B, H, T, S]`."""
    taps = Taps(record=["pattern"])
    with torch.inference_mode():
        out_BTD = tiny_gpt().blocks[0].get_submodule("attn")(x_BTD, None, None, taps)
    return out_BTD, taps.recorded["pattern"]


def _gap(one: Tensor, other: Tensor | float) -> float:
    return (one - other).abs().max().item()


EXAMPLES: tuple[Example, ...] = (
    Example(
        name="parameters", lesson="A, slides 19-21, 53-54", title="TinyGPT's parameters, part by part", run=_parameters
    ),
    Example(name="flops", lesson="A, slide 24", title="TinyGPT's operations, product by product", run=_flops),
    Example(name="milestone-1", lesson="A, slides 51-52", title="causal self-attention alone", run=_milestone_1),
)
