"""The tables the lessons leave out, counted from `nextok.spec`: GPT-2's sizes, its family, and where parameters sit."""

from dataclasses import replace

from nextok.lessons.worked import Example, Fact, Grid, Worked
from nextok.spec import Counts, ModelConfig, count, preset_config
from nextok.units import format_count

_GPT2 = {"small": "gpt2", "medium": "gpt2-medium", "large": "gpt2-large", "XL": "gpt2-xl"}
_NAMES_IN_THE_PAPER = {"small": "117M", "medium": "345M", "large": "762M", "XL": "1542M"}
_GPT3_TOKENS = 300_000_000_000


def _shape(config: ModelConfig) -> tuple[int, ...]:
    return (config.n_layers, config.d_model, config.n_heads, config.d_ff)


def _parameters(preset: str) -> int:
    return count(preset_config(preset)).parameters


def _gpt2_family() -> Worked:
    shapes = {
        "small": (12, 768, 12, 3072),
        "medium": (24, 1024, 16, 4096),
        "large": (36, 1280, 20, 5120),
        "XL": (48, 1600, 25, 6400),
    }
    parameters = {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "XL": 1_557_611_200}
    configs = {size: preset_config(preset) for size, preset in _GPT2.items()}
    facts = [
        Fact(what=f"{size}: L, d, heads, d_ff", expected=shapes[size], computed=_shape(configs[size])) for size in _GPT2
    ]
    facts += [
        Fact(what=f"{size}: parameters", expected=parameters[size], computed=_parameters(preset))
        for size, preset in _GPT2.items()
    ]
    heads = tuple(config.d_head for config in configs.values())
    return Worked(
        question="GPT-2 small has 12 layers, width 768, V 50,257 and context 1,024, tied: how many parameters is that?",
        answer="124,439,808; medium 354,823,168, large 774,030,080, XL 1,557,611,200.",
        facts=(*facts, Fact(what="d_head of the four", expected=(64,) * 4, computed=heads), *_parts_of_small()),
        why=(
            "V d for the tokens, T d for the positions, 12 d^2 + 13 d a block, 2 d for the final LayerNorm; the head "
            "is the token table again and costs nothing. The names in the paper are smaller because its counts were "
            "wrong; the weights that were published have the numbers here. All four keep heads of width 64 and add "
            "heads instead."
        ),
        grids=(_family_grid(configs),),
        corrections=("Printed: the table of the GPT-2 family is missing. Right: the table above, counted.",),
    )


def _parts_of_small() -> tuple[Fact, ...]:
    config = preset_config("gpt2")
    parts, final_norm = count(config).parameters_by_part, 2 * config.d_model
    blocks = parts["attention"] + parts["feed-forward"] + parts["norms"] - final_norm
    return (
        Fact(what="small: token table", expected=38_597_376, computed=parts["token embedding"]),
        Fact(what="small: positions", expected=786_432, computed=parts["position embedding"]),
        Fact(what="small: 12 blocks", expected=85_054_464, computed=blocks),
        Fact(
            what="small: final LayerNorm", expected=1_536, computed=count(config).parameters - blocks - _tables(config)
        ),
    )


def _tables(config: ModelConfig) -> int:
    parts = count(config).parameters_by_part
    return parts["token embedding"] + parts["position embedding"]


def _family_grid(configs: dict[str, ModelConfig]) -> Grid:
    def row(size: str, config: ModelConfig) -> tuple[str, ...]:
        return (size, *(f"{n:,}" for n in (*_shape(config), count(config).parameters)), _NAMES_IN_THE_PAPER[size])

    return Grid(
        title="GPT-2: context 1,024, V 50,257, learned positions, tanh GELU, tied head",
        columns=("size", "layers", "d", "heads", "d_ff", "parameters", "in the paper"),
        rows=tuple(row(size, config) for size, config in configs.items()),
    )


def _progression() -> Worked:
    presets = {"GPT-1 (2018)": "gpt1", "GPT-2 XL (2019)": "gpt2-xl", "GPT-3 (2020)": "gpt3"}
    expected = {
        "GPT-1 (2018)": ((12, 768, 12), (512, 40_478), 116_534_784),
        "GPT-2 XL (2019)": ((48, 1600, 25), (1024, 50_257), 1_557_611_200),
        "GPT-3 (2020)": ((96, 12_288, 96), (2048, 50_257), 174_604_259_328),
    }
    configs = {name: preset_config(preset) for name, preset in presets.items()}
    facts = []
    for name, config in configs.items():
        shape, sizes, parameters = expected[name]
        facts += [
            Fact(what=f"{name}: layers, d, heads", expected=shape, computed=_shape(config)[:3]),
            Fact(what=f"{name}: context, V", expected=sizes, computed=(config.context, config.vocab_size)),
            Fact(what=f"{name}: parameters", expected=parameters, computed=count(config).parameters),
        ]
    final_norms = tuple(config.has_final_norm for config in configs.values())
    compute = float(count(configs["GPT-3 (2020)"]).training_flops_per_token_6n * _GPT3_TOKENS)
    return Worked(
        question="By what factor did the parameters grow from GPT-1 to GPT-2 XL, and from there to GPT-3?",
        answer="About 13, then about 112: 117M, 1.56B, 175B.",
        facts=(
            *facts,
            Fact(what="final LayerNorm", expected="no, yes, yes", computed=", ".join(_yes(one) for one in final_norms)),
            Fact(what="GPT-3's compute, 6 N D of 300B tokens", expected=3.14e23, computed=compute, tolerance=5e20),
            Fact(
                what="growth, to the nearest whole",
                expected=(13, 112),
                computed=(
                    round(_parameters("gpt2-xl") / _parameters("gpt1")),
                    round(_parameters("gpt3") / _parameters("gpt2-xl")),
                ),
            ),
        ),
        why=(
            "GPT-1 normalises after the residual sum and needs no norm at the end, GPT-2 and GPT-3 normalise before "
            "each sublayer and once before the head; GPT-3 alternates dense and banded sparse attention, which have "
            "the same parameters. L and d grew, and parameters with them as 12 L d^2; context and vocabulary grew too."
        ),
        grids=(_progression_grid(configs),),
        corrections=(
            "Printed: the tables of the family's progression and of the parameter count are missing in lesson B. "
            "Right: the table above, and `gpt2-family` part by part.",
        ),
    )


def _yes(one: bool) -> str:  # noqa: FBT001 - the value itself
    return "yes" if one else "no"


def _progression_grid(configs: dict[str, ModelConfig]) -> Grid:
    norms = {"after": "post", "before": "pre + final LN"}
    return Grid(
        title="The family",
        columns=("model", "layers", "d", "heads", "context", "V", "norm", "parameters"),
        rows=tuple(
            (
                name,
                *(f"{n:,}" for n in (*_shape(config)[:3], config.context, config.vocab_size)),
                norms[config.norm_placement],
                f"{count(config).parameters:,}",
            )
            for name, config in configs.items()
        ),
    )


def _tied_head() -> Worked:
    def saved(preset: str) -> tuple[int, int, float]:
        config = preset_config(preset)
        tied, untied = (count(replace(config, tied_head=tied)).parameters for tied in (True, False))
        return tied, untied, 100 * (untied - tied) / untied

    small, xl = saved("gpt2"), saved("gpt2-xl")
    return Worked(
        question=(
            "Tying the head to the embedding: what share of the parameters does it save in GPT-2 small, and in XL?"
        ),
        answer="V d: 23.7 % of GPT-2 small, 4.9 % of XL, never half.",
        facts=(
            Fact(what="small, tied and untied", expected=(124_439_808, 163_037_184), computed=small[:2]),
            Fact(what="small saves, %", expected=23.7, computed=small[2], tolerance=0.05),
            Fact(what="XL saves, %", expected=4.9, computed=xl[2], tolerance=0.05),
            Fact(
                what="lesson A's TinyGPT, tied and untied", expected=(103_808, 107_008), computed=saved("lesson-a")[:2]
            ),
            Fact(what="small saves V d", expected=True, computed=small[1] - small[0] == 50_257 * 768),
        ),
        why=(
            "Only the head goes: V d numbers, whatever the depth. It weighs much in a small model with a large "
            "vocabulary, and little once 12 L d^2 has grown past it. Half of everything could be saved only by a model "
            "without blocks."
        ),
        grids=(
            Grid(
                title="Tied against untied",
                columns=("model", "tied", "untied", "saved"),
                rows=tuple(
                    (name, f"{tied:,}", f"{untied:,}", f"{share:.1f} %")
                    for name in ("lesson-a", *_GPT2.values())
                    for tied, untied, share in (saved(name),)
                ),
            ),
        ),
        corrections=(
            "Printed: tying halves the parameter count. Right: it saves V d, 23.7 % of GPT-2 small, 4.9 % of XL and "
            "9.6 % of the page's own model; it halves the embedding and the head alone.",
        ),
    )


def _embedding_share() -> Worked:
    configs = {
        "TinyGPT": preset_config("lesson-a"),
        "nano, V 50,257": preset_config("nano", vocab_size=50_257),
        "GPT-2 small": preset_config("gpt2"),
        "GPT-2 XL": preset_config("gpt2-xl"),
    }
    shares = {name: 100 * _token_matrices(count(config)) / count(config).parameters for name, config in configs.items()}
    return Worked(
        question="For which vocabularies does the embedding dominate a model: small ones or large ones?",
        answer="Large ones: V d outweighs the blocks where V is above 12 L d.",
        facts=(
            Fact(what="TinyGPT: embedding and head, %", expected=6.0, computed=shares["TinyGPT"], tolerance=0.05),
            Fact(what="TinyGPT: V against 12 L d", expected=(50, 1_536), computed=_v_and_12_l_d(configs["TinyGPT"])),
            Fact(
                what="GPT-2 small: V against 12 L d",
                expected=(50_257, 110_592),
                computed=_v_and_12_l_d(configs["GPT-2 small"]),
            ),
            Fact(
                what="more than half exactly where V > 12 L d",
                expected=True,
                computed=all(
                    (share > 50) == (_v_and_12_l_d(configs[name])[0] > _v_and_12_l_d(configs[name])[1])
                    for name, share in shares.items()
                ),
            ),
        ),
        why=(
            "The token table has V d numbers and the blocks 12 L d^2; divided by d, V stands against 12 L d. TinyGPT "
            "has 50 tokens, so its two tables are 6 % of it. The nano shape with GPT-2's vocabulary is nearly all "
            "table."
        ),
        grids=(
            Grid(
                title="Token embedding, with the head where it is its own",
                columns=("model", "V", "12 L d", "share"),
                rows=tuple(
                    (name, *(f"{n:,}" for n in _v_and_12_l_d(configs[name])), f"{share:.1f} %")
                    for name, share in shares.items()
                ),
            ),
        ),
        corrections=(
            "Printed: the embedding matrix dominates for a small vocabulary. Right: the reverse; it dominates where V "
            "is large against 12 L d. In TinyGPT embedding and head are 6 %.",
        ),
    )


def _token_matrices(counts: Counts) -> int:
    return counts.parameters_by_part["token embedding"] + counts.parameters_by_part["head"]


def _v_and_12_l_d(config: ModelConfig) -> tuple[int, int]:
    return config.vocab_size, 12 * config.n_layers * config.d_model


def _four_times() -> Worked:
    def per_block(d: int, part: str, *, bias: bool = True) -> int:
        config = ModelConfig(n_layers=1, d_model=d, n_heads=1, vocab_size=1, bias=bias)
        return count(config).parameters_by_part[part]

    def block(d: int) -> int:
        norms = per_block(d, "norms") - 2 * d  # without the final one
        return per_block(d, "attention") + per_block(d, "feed-forward") + norms

    widths = (64, 256, 768, 1024, 1280, 1600)
    return Worked(
        question="d 64, d_ff = 4 d: how many parameters has the feed-forward network, with biases?",
        answer="33,088 = 8 x 64^2 + 5 x 64, twice the attention's 4 x 64^2 in matrices.",
        facts=(
            Fact(what="d 64: 8 d^2", expected=32_768, computed=per_block(64, "feed-forward", bias=False)),
            Fact(what="d 64: 8 d^2 + 5 d", expected=33_088, computed=per_block(64, "feed-forward")),
            Fact(what="d 256", expected=525_568, computed=per_block(256, "feed-forward")),
            Fact(what="d 768", expected=4_722_432, computed=per_block(768, "feed-forward")),
            Fact(
                what="feed-forward to attention, matrices",
                expected=(2.0,) * len(widths),
                computed=tuple(
                    per_block(d, "feed-forward", bias=False) / per_block(d, "attention", bias=False) for d in widths
                ),
            ),
            Fact(
                what="a block is 12 d^2 + 13 d",
                expected=True,
                computed=all(block(d) == 12 * d * d + 13 * d for d in widths),
            ),
            Fact(what="d 256, 8 heads: d_head", expected=32, computed=preset_config("stretch").d_head),
        ),
        why=(
            "Up is d x 4 d, down is 4 d x d: 8 d^2, and 4 d + d biases. Attention is Q, K, V and the output, d x d "
            "each: 4 d^2, and 4 d biases. Two LayerNorms add 4 d. Together 12 d^2 + 13 d, two thirds of it "
            "feed-forward."
        ),
        grids=(
            Grid(
                title="A block by width",
                columns=("d", "attention", "feed-forward", "block"),
                rows=tuple(
                    (f"{d:,}", *(format_count(per_block(d, p)) for p in ("attention", "feed-forward")), f"{block(d):,}")
                    for d in widths
                ),
            ),
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="gpt2-family", lesson="A, slides 22-23", title="GPT-2's four sizes, counted", run=_gpt2_family),
    Example(name="family-progression", lesson="B", title="GPT-1, GPT-2 and GPT-3", run=_progression),
    Example(name="tied-head", lesson="B", title="tied against untied", run=_tied_head),
    Example(name="embedding-share", lesson="B", title="where the embedding dominates", run=_embedding_share),
    Example(name="four-times", lesson="A, slides 17-18, 44-45", title="the 4x rule, counted", run=_four_times),
)
