"""How the lessons' programs differ from GPT-2, by name: what a config cannot say about the arithmetic.

| dialect | norm divides by | masked scores | the rest is the config's |
|---|---|---|---|
| `gpt2` | sqrt(var + eps) | -inf | tanh GELU, tied head, biases, N(0, 0.02) |
| `lesson-a` | sqrt(var + eps) | -inf | erf GELU, head of its own, torch's default first weights |
| `lesson-b` | std + eps | -1e9 | one head of full width (4 passed, one used), ReLU, no biases in maps, tied head |
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextok.spec import ModelConfig

MASKED_LESSON_B = -1e9
"""Equal to -inf after the softmax here, where exp underflows to 0; not so in float16, nor in a row with all masked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """What of the arithmetic is not GPT-2's."""

    eps_outside: bool = False
    """The norm divides by sqrt(var) + eps in place of sqrt(var + eps)."""
    masked_score: float = -math.inf
    """What stands in place of scores of the future."""


DIALECTS = {
    "gpt2": Dialect(),
    "lesson-a": Dialect(),
    "lesson-b": Dialect(eps_outside=True, masked_score=MASKED_LESSON_B),
}


def lesson_b(seed: int = 0) -> tuple[ModelConfig, dict[str, NDArray[np.float64]]]:
    """Returns the model of lesson B's NumPy page and its first weights in float64, 30,144 numbers.

    V 100, D 32, F 128, L 2, context 64. Drawn as the page draws: `default_rng(seed)`, N(0, 0.02), tokens, positions,
    then in each block Q, K, V, O (stored `[in, out]`) and the two feed-forward matrices. The norms' biases are there,
    those of linear maps are not. Source: lesson B.
    """
    config = ModelConfig(
        vocab_size=100, n_layers=2, d_model=32, n_heads=1, d_ff=128, context=64, mlp="relu", bias=False, tied_head=True
    )
    rng = np.random.default_rng(seed)
    D, F = config.d_model, config.d_ff

    def draw(*shape: int) -> NDArray[np.float64]:
        return rng.normal(0.0, 0.02, shape)

    weights = {"embed.tokens.weight": draw(config.vocab_size, D), "embed.positions.weight": draw(config.context, D)}
    for layer in range(config.n_layers):
        q, k, v, out = (draw(D, D).T for _ in range(4))
        block = {"attn.qkv.weight": np.concatenate([q, k, v]), "attn.out.weight": out}
        block |= {"mlp.up.weight": draw(F, D), "mlp.down.weight": draw(D, F)}
        block |= {f"norm{i}.{part}": _first_norm(part, D) for i in (1, 2) for part in ("weight", "bias")}
        weights |= {f"blocks.{layer}.{name}": array for name, array in block.items()}
    return config, weights | {f"final_norm.{part}": _first_norm(part, D) for part in ("weight", "bias")}


def _first_norm(part: str, width: int) -> NDArray[np.float64]:
    return np.ones(width) if part == "weight" else np.zeros(width)
