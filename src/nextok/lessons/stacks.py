"""GPT beside its relatives: what a decoder without an encoder leaves out, and what BERT does otherwise."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from nextok.corpus import shift
from nextok.errors import InputError
from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.model import TorchDecoder, build
from nextok.spec import count, preset_config
from nextok.spec.shapes import block_shapes


def _block_parts() -> dict[str, int]:
    """Returns the parameters of a block of lesson A's TinyGPT by part."""
    parts = {"attn": 0, "mlp": 0, "norm": 0}
    for name, shape in block_shapes(preset_config("lesson-a")).items():
        parts[next(part for part in parts if name.startswith(part))] += math.prod(shape)
    return parts


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _no_cross_attention() -> Worked:
    config = preset_config("lesson-a")
    d, parts = config.d_model, _block_parts()
    gpt = sum(parts.values())
    cross = parts["attn"] + parts["norm"] // 2  # one more attention, and the norm in front of it
    with torch.random.fork_rng(devices=[]):  # torch draws the first weights, which are only counted here
        encoder_layer = nn.TransformerEncoderLayer(d, config.n_heads, config.d_ff)
        decoder_layer = nn.TransformerDecoderLayer(d, config.n_heads, config.d_ff)
    open_model = replace(config, mask="none")
    return Worked(
        question=(
            "d 64: how many parameters does a block lose when cross-attention is taken out of the Transformer's "
            "decoder?"
        ),
        answer="4 d^2 + 4 d for the attention and 2 d for its norm: 16,768 of 66,752, which leaves GPT's 49,984.",
        facts=(
            Fact(what="GPT block", expected=49_984, computed=gpt),
            Fact(what="cross-attention and its norm", expected=16_768, computed=cross),
            Fact(what="4 d^2 + 4 d + 2 d", expected=True, computed=cross == 4 * d * d + 6 * d),
            Fact(what="block with cross-attention", expected=66_752, computed=gpt + cross),
            Fact(what="torch's decoder layer", expected=66_752, computed=_size(decoder_layer)),
            Fact(what="torch's encoder layer", expected=49_984, computed=_size(encoder_layer)),
            Fact(
                what="parameters of the mask",
                expected=0,
                computed=count(config).parameters - count(open_model).parameters,
            ),
            Fact(what="layers with equal first weights", expected=0, computed=_equal_layers()),
        ),
        why=(
            "Cross-attention lets a decoder read an encoder's output; without an encoder there is nothing to read. "
            "What remains has the parameters of an encoder block, to the last one: GPT and BERT differ by the mask, "
            "which has no parameters, and by what they are trained to predict."
        ),
        grids=(
            Grid(
                title="A block of width 64",
                columns=("block", "self-attention", "cross-attention", "feed-forward", "norms", "total"),
                rows=(
                    _row("GPT (causal)", parts, cross=0, norms=2),
                    _row("encoder (BERT; open)", parts, cross=0, norms=2),
                    _row("decoder (original)", parts, cross=parts["attn"], norms=3),
                ),
            ),
        ),
        corrections=(
            "Printed: removing cross-attention gives the pre-norm block, and every GPT layer is identical. Right: it "
            "gives GPT-1's post-norm block; pre-norm came with GPT-2. Layers share the structure, not the weights.",
        ),
    )


def _row(name: str, parts: dict[str, int], *, cross: int, norms: int) -> tuple[str, ...]:
    norm = norms * parts["norm"] // 2
    numbers = (parts["attn"], cross, parts["mlp"], norm, parts["attn"] + cross + parts["mlp"] + norm)
    return (name, *(f"{number:,}" for number in numbers))


def _equal_layers() -> int:
    """Returns how many matrices of TinyGPT's second layer equal those of the first."""
    weights = dict(build(preset_config("lesson-a"), seed=42).named_parameters())
    pairs = [
        (weight, weights[name.replace("blocks.0", "blocks.1")])
        for name, weight in weights.items()
        if name.startswith("blocks.0") and weight.ndim == 2
    ]
    return sum(torch.equal(first, second) for first, second in pairs)


def _gpt_or_bert() -> Worked:
    _, targets_BT = shift(np.arange(129)[None])
    T = preset_config("lesson-a").context
    return Worked(
        question="Fill in BERT beside GPT: which tokens does a position see, how many are targets, can it generate?",
        answer="BERT sees all tokens, predicts 15 % that were hidden, and does not generate naturally.",
        facts=(
            Fact(what="GPT: pairs attended of 64", expected=36, computed=_pairs_attended(causal=True)),
            Fact(what="BERT: pairs attended of 64", expected=64, computed=_pairs_attended(causal=False)),
            Fact(what="GPT: targets of 128 + 1 tokens", expected=128, computed=targets_BT.size),
            Fact(what="GPT decodes", expected=True, computed=_decodes(causal=True)),
            Fact(what="the same without the mask decodes", expected=False, computed=_decodes(causal=False)),
        ),
        why=(
            f"With the causal mask a position sees itself and the past, T(T + 1)/2 pairs of {T} x {T}, so every token "
            "can be a target of the ones before it. BERT's positions see each other, so a target has to be hidden from "
            "the input first, and only a few can be. Generating needs a past that does not change when a token is "
            "added; BERT's does."
        ),
        grids=(
            Grid(
                title="GPT and BERT",
                columns=("", "GPT", "BERT"),
                rows=(
                    ("stack", "decoder-only", "encoder-only"),
                    ("attention", "causal", "bidirectional"),
                    ("objective", "next token", "masked token, 15 % of tokens"),
                    ("direction", "left to right", "both"),
                    ("positions", "learned", "learned"),
                    ("special tokens", "end of text", "[CLS], [SEP], [MASK]"),
                    ("best use", "generation", "understanding"),
                    ("fluent generation", "yes", "not naturally"),
                ),
            ),
        ),
        corrections=(
            "Printed: encoder-decoder (BERT + T5). Right: BERT is encoder-only; T5 and the original Transformer are "
            "encoder-decoder.",
        ),
    )


def _pairs_attended(*, causal: bool) -> int:
    """Returns how many pairs of positions have weight in the first layer's first head."""
    config = replace(preset_config("lesson-a"), mask="causal" if causal else "none")
    name = "blocks.0.attn.pattern"
    pattern_BHTS = build(config, seed=42).trace(torch.arange(config.context)[None], [name])[name]
    return int((pattern_BHTS[0, 0] > 0).sum())


def _decodes(*, causal: bool) -> bool:
    config = replace(preset_config("lesson-a"), mask="causal" if causal else "none")
    try:
        return TorchDecoder(build(config, seed=42)).prefill(0, [5, 12, 3]).shape == (config.vocab_size,)
    except InputError:
        return False


EXAMPLES: tuple[Example, ...] = (
    Example(
        name="no-cross-attention", lesson="A, slide 4", title="GPT, encoder and decoder blocks", run=_no_cross_attention
    ),
    Example(name="gpt-or-bert", lesson="A, slides 4-5; C", title="the table of GPT and BERT", run=_gpt_or_bert),
)
