"""A model that can be built, near a given N: whole layers, whole heads, a width that is a multiple of the head's.

Among the shapes within 5 % of N the one is taken whose width over depth is nearest to what trained well at that size,

    width / layers = min(128, 2.3 sqrt(width)):    48 x 3, 128 x 5, GPT-2 small's 768 x 12, GPT-3's 12,288 x 96.

Loss depends little on it (Kaplan et al. 2020: 3 % from a tenth to ten times of their best).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nextok.errors import InputError
from nextok.scaling.covered import Counting, counted
from nextok.spec import Counts, ModelConfig, count, read_recipe
from nextok.units import format_count

TOLERANCE = 0.05
"""Farthest from the N asked for, as a share of it."""
VOCABULARIES = (256, 1024, 4096, 16_384, 50_257)
"""Bytes, three sizes of BPE, and GPT-2's: what is chosen from where the user names none."""
EMBEDDING_SHARE = 1 / 3
"""Of N, what a vocabulary chosen here may take; GPT-2 small's takes 31 %. Above it the tables are said to dominate."""

# Up to this width: widths in steps of this, heads this wide (or half of it, where that alone divides the width).
_BANDS = ((128, 8, 16), (384, 16, 32), (3072, 64, 64), (1 << 17, 128, 128))
_NARROWEST = 16
_CONTEXTS = (64, 2048)  # smallest and largest that is chosen here
_MOST_LAYERS = 512
_ASPECT_FACTOR = 8  # farther from the usual width over depth a shape is not proposed, however well its N fits
_LEAST_LAYERS = 2  # induction, what makes a model use its context, takes two


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """What is settled about the model beforehand."""

    recipe: str = "modern"
    """Block type: modern or classic (GPT-2)."""
    vocab_size: int | None = None
    """Rows of the token embedding; none: the largest of 256 (bytes), 1,024, 4,096, 16,384 and 50,257 (GPT-2) whose
    table stays below a third of N."""
    context: int | None = None
    """Most tokens a forward pass sees; none: the power of two at or above the width, 64 to 2,048."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} = {value} is below 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Buildable:
    """A model and its counts."""

    config: ModelConfig
    """The shape."""
    counts: Counts
    """Exact parameters, FLOPs and bytes."""
    counting: Counting
    """What N counts."""
    N: int
    """Its parameters under that count."""
    wanted: float
    """What was asked for."""

    @property
    def off_by(self) -> float:
        """Difference from the N asked for, as a share of it."""
        return self.N / self.wanted - 1

    @property
    def embedding_share(self) -> float:
        """Share of all parameters in the token and position tables and the head."""
        parts = self.counts.parameters_by_part
        tables = parts["token embedding"] + parts["position embedding"] + parts["head"]
        return tables / self.counts.parameters


def build(N: float, counting: Counting, options: ModelOptions | None = None) -> Buildable:
    """Returns a model with N parameters, to 5 %.

    Args:
        N: Parameters, above 0.
        counting: What they count.
        options: What is settled beforehand.

    Raises:
        InputError: if there is none, with the nearest.
    """
    options = options or ModelOptions()
    block = read_recipe(options.recipe)["model"]
    vocab_size = options.vocab_size or _vocabulary(N, tables=1 if block["tied_head"] else 2)
    shapes = [
        shape
        for width, head_width in _widths(N)
        for shape in _shapes(N, counting, {**block, **_sizes(width, head_width, options), "vocab_size": vocab_size})
    ]
    shapes = [shape for shape in shapes if abs(_log_aspect(shape.config)) < math.log(_ASPECT_FACTOR)] or shapes
    fitting = [shape for shape in shapes if abs(shape.N / N - 1) <= TOLERANCE]
    if not fitting:
        raise _nothing_near(N, min(shapes, key=lambda shape: abs(math.log(shape.N / N))), counting)
    chosen = min(fitting, key=lambda shape: _unusual(shape, N)).config
    counts = count(chosen)
    return Buildable(config=chosen, counts=counts, counting=counting, N=counted(counts, counting), wanted=N)


@dataclass(frozen=True, slots=True)
class _Shape:
    config: ModelConfig
    N: int


def _shapes(N: float, counting: Counting, settled: dict[str, Any]) -> Iterator[_Shape]:
    """Yields the models of one width with the whole numbers of layers on both sides of N."""
    one, two = (counted(count(ModelConfig(**settled, n_layers=n)), counting) for n in (1, 2))
    block = two - one  # every block adds the same
    layers = 1 + (N - one) / block
    for n_layers in sorted({math.floor(layers), math.ceil(layers)}):
        n_layers = min(max(n_layers, _LEAST_LAYERS), _MOST_LAYERS)
        yield _Shape(ModelConfig(**settled, n_layers=n_layers), one + (n_layers - 1) * block)


def _sizes(width: int, head_width: int, options: ModelOptions) -> dict[str, int]:
    return {"d_model": width, "n_heads": width // head_width, "context": options.context or _context(width)}


def _widths(N: float) -> Iterator[tuple[int, int]]:
    """Yields (width, width of a head), up to where two layers alone are larger than N."""
    largest = math.sqrt(N / (12 * _LEAST_LAYERS))
    before = 0
    for last, step, head_width in _BANDS:
        for width in range(before + step, last + 1, step):
            if _NARROWEST <= width <= max(largest, _NARROWEST):
                yield width, head_width if width % head_width == 0 else head_width // 2
        before = last


def _context(width: int) -> int:
    smallest, largest = _CONTEXTS
    return min(max(smallest, 1 << (width - 1).bit_length()), largest)


def _vocabulary(N: float, tables: int) -> int:
    """Returns the largest vocabulary whose tables stay below a third of N at the width usual for this N.

    The other two thirds are blocks, 12 L D^2 with D / L = 2.3 sqrt(D): hence D^2.5 = 2/3 N 2.3 / 12.
    """
    width = (2 / 3 * N * 2.3 / 12) ** 0.4
    return max((size for size in VOCABULARIES if tables * size * width <= EMBEDDING_SHARE * N), default=VOCABULARIES[0])


def _unusual(shape: _Shape, N: float) -> float:
    """How far the shape is from what is usual at its width, and a little how far N is from what was asked for."""
    return abs(_log_aspect(shape.config)) + 2 * abs(shape.N / N - 1)


def _log_aspect(config: ModelConfig) -> float:
    """Returns the logarithm of width over depth, as a multiple of the usual one."""
    usual = min(128.0, 2.3 * math.sqrt(config.d_model))
    return math.log(config.d_model / config.n_layers / usual)


def _nothing_near(N: float, nearest: _Shape, counting: Counting) -> InputError:
    config = nearest.config
    tables = (1 if config.tied_head else 2) * config.vocab_size * config.d_model
    too_wide = tables > N * EMBEDDING_SHARE and config.vocab_size > VOCABULARIES[0]
    return InputError(
        f"There is no model within {TOLERANCE:.0%} of {format_count(N)} parameters ({counting}); the nearest, "
        f"{config.n_layers} layers of width {config.d_model} with a vocabulary of {config.vocab_size:,}, has "
        f"{format_count(nearest.N)}.",
        f"Its token tables alone take {format_count(tables)}: use a smaller --vocab-size."
        if too_wide
        else "Plan for another budget.",
    )
