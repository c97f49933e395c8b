"""Options of a run: recipe under user, wrong values refused by name."""

import pytest

from nextok.config import to_mapping
from nextok.errors import ConfigError
from nextok.train.config import RunOptions, TrainConfig, recipe_steps, run_options


def test_recipe_fills_what_the_user_does_not_say() -> None:
    classic = run_options({"recipe": "classic"})
    assert (classic.train.batch_size, classic.train.lr, classic.train.min_lr_fraction) == (12, 1e-3, 0.1)
    assert (classic.train.warmup_steps, classic.train.beta2, classic.train.grad_clip) == (100, 0.99, 1.0)
    assert (classic.model.norm, classic.model.position, classic.model.mlp) == ("layernorm", "learned", "gelu_tanh")
    modern = run_options({"recipe": "modern", "model": {"qk_norm": False}, "train": {"lr": 0.5}})
    assert (modern.model.norm, modern.model.position, modern.model.mlp) == ("rmsnorm", "rope", "swiglu")
    assert (modern.model.qk_norm, modern.train.lr) == (False, 0.5)
    assert recipe_steps("classic") == 2000


def test_preset_goes_with_its_own_recipe_unless_one_is_named() -> None:
    lesson = run_options({"preset": "lesson-a"})
    assert (lesson.recipe, lesson.model.mlp, lesson.model.tied_head, lesson.model.init) == (
        "classic",
        "gelu",
        False,
        "torch",
    )
    assert run_options({"preset": "lesson-a", "recipe": "modern"}).model.mlp == "swiglu"
    assert run_options({}).recipe == "modern"
    assert run_options({"tokens": 5_000_000}).tokens == 5_000_000


def test_options_survive_being_saved() -> None:
    chosen = run_options({"preset": "stretch", "steps": 5, "sources": ["a", "b"], "train": {"seed": 3}})
    assert run_options(to_mapping(chosen)) == chosen


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"steps": 1, "minutes": 2.0}, "given twice: steps and minutes"),
        ({"steps": 0}, "steps = 0"),
        ({"minutes": float("nan")}, "minutes = nan"),
        ({"tokens": "many"}, "'many' is not a count"),
        ({"train": {"lr": float("inf")}}, "lr = inf"),
        ({"train": {"lr": -1.0}}, "lr = -1.0"),
        ({"train": {"min_lr_fraction": 1.5}}, "min_lr_fraction = 1.5"),
        ({"tokens": 0}, "tokens = 0"),
        ({"tokens": "0"}, "tokens = 0"),
        ({"train": {"batch_size": 0}}, "batch_size = 0"),
        ({"train": {"beta2": 1.0}}, "beta2 = 1.0"),
        ({"train": {"weight_decay": float("nan")}}, "weight_decay = nan"),
        ({"train": {"learning_rate": 1.0}}, "Unknown option 'learning_rate'"),
        ({"train": 3}, "not a table"),
        ({"preset": "nan0"}, "no preset 'nan0'"),
        ({"recipe": "clasic"}, "no recipe 'clasic'"),
        ({"model": {"d_model": 130}}, "not divisible"),
    ],
)
def test_wrong_value_is_refused_by_name(values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match="(?s)" + said.replace("(", r"\(")):
        run_options(values)


def test_defaults_of_the_dataclasses_are_legal() -> None:
    assert RunOptions().train == TrainConfig()
