"""The list of hook points, and the patterns that stand for several."""

import pytest

from nextok.errors import ConfigError
from nextok.spec import ModelConfig, hook_names, select_hooks

ONE_LAYER = ModelConfig(n_layers=1, vocab_size=5)


def test_the_points_of_a_gpt2_block_in_forward_order() -> None:
    assert hook_names(ONE_LAYER) == [
        "embed.tokens",
        "embed.positions",
        "embed",
        "blocks.0.resid_pre",
        "blocks.0.norm1",
        "blocks.0.attn.q",
        "blocks.0.attn.k",
        "blocks.0.attn.v",
        "blocks.0.attn.scores",
        "blocks.0.attn.scaled",
        "blocks.0.attn.masked",
        "blocks.0.attn.pattern",
        "blocks.0.attn.mixed",
        "blocks.0.attn.out",
        "blocks.0.resid_mid",
        "blocks.0.norm2",
        "blocks.0.mlp.pre",
        "blocks.0.mlp.post",
        "blocks.0.mlp.out",
        "blocks.0.resid_post",
        "final_norm",
        "logits",
    ]


def test_a_model_has_no_points_for_parts_it_has_not() -> None:
    rotary = hook_names(ModelConfig(n_layers=3, vocab_size=5, position="rope"))
    assert "embed.positions" not in rotary
    assert "blocks.2.resid_post" in rotary
    assert "blocks.3.resid_pre" not in rotary
    assert "final_norm" not in hook_names(ModelConfig(vocab_size=5, norm_placement="after"))


def test_names_are_unique(any_config: ModelConfig) -> None:
    names = hook_names(any_config)
    assert len(set(names)) == len(names)


def test_patterns_stand_for_every_match_once_and_in_forward_order() -> None:
    config = ModelConfig(n_layers=3, vocab_size=5)
    patterns = ["logits", "blocks.*.attn.pattern", "blocks.1.attn.*", "blocks.1.attn.pattern"]
    attention = [name for name in hook_names(config) if name.startswith("blocks.1.attn.")]
    assert select_hooks(config, patterns) == [
        "blocks.0.attn.pattern",
        *attention,
        "blocks.2.attn.pattern",
        "logits",
    ]
    assert select_hooks(config, ["*"]) == hook_names(config)
    assert select_hooks(config, []) == []


def test_a_name_is_itself_alone() -> None:
    assert select_hooks(ONE_LAYER, ["embed"]) == ["embed"]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("blocks.0.atn.pattern", "Did you mean 'blocks.0.attn.pattern'?"),
        ("blocks.9.attn.q", "Did you mean 'blocks.0.attn.q'?"),
        ("zzz*", "First: embed.tokens."),
        ("", "First: embed.tokens."),
        ("LOGITS", "First: embed.tokens."),
    ],
)
def test_what_matches_nothing_is_refused_with_the_nearest_name(pattern: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        select_hooks(ONE_LAYER, ["logits", pattern])
    assert caught.value.message == f"This model has no hook point {pattern!r}."
    assert caught.value.hint == hint
