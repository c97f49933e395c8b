"""The names of the hook points: where a forward pass can be read and changed, in the order it passes them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from nextok.config import unknown_name
from nextok.errors import ConfigError
from nextok.spec.config import ModelConfig

_BLOCK_POINTS = (
    "resid_pre",
    "norm1",
    "attn.q",
    "attn.k",
    "attn.v",
    "attn.scores",
    "attn.scaled",
    "attn.masked",
    "attn.pattern",
    "attn.mixed",
    "attn.out",
    "resid_mid",
    "norm2",
    "mlp.pre",
    "mlp.post",
    "mlp.out",
    "resid_post",
)


def hook_names(config: ModelConfig) -> list[str]:
    """Returns the name of every hook point of a model. Blocks that normalise after the sum have no `final_norm`."""
    tables = ["embed.tokens"]
    tables += ["embed.positions"] if config.position == "learned" else []
    tables += ["embed.bigrams"] if config.bigrams else []
    blocks = [f"blocks.{layer}.{point}" for layer in range(config.n_layers) for point in _BLOCK_POINTS]
    return [*tables, "embed", *blocks, *(["final_norm"] if config.has_final_norm else []), "logits"]


def select_hooks(config: ModelConfig, patterns: Sequence[str]) -> list[str]:
    """Returns the hook points that the names or patterns (`blocks.*.attn.pattern`) stand for, in forward order.

    Raises:
        ConfigError: for a name or pattern that matches none, with the nearest name.
    """
    known = hook_names(config)
    chosen: set[str] = set()
    for pattern in patterns:
        matching = [name for name in known if fnmatchcase(name, pattern)]
        if not matching:
            near = unknown_name(pattern, known).hint
            raise ConfigError(
                f"This model has no hook point {pattern!r}.", near if "Did" in near else f"First: {known[0]}."
            )
        chosen.update(matching)
    return [name for name in known if name in chosen]
