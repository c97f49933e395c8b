"""The stretch examples hold, and fail when the shape or the loop is wrong; the training example runs on a tiny text."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from lessons.examples import assert_well_formed, corrections, expected, worked, wrong, wrong_now
from nextok.lessons import stretch
from nextok.lessons.stretch import EXAMPLES, few_shot_prompt, train_and_try
from nextok.lessons.tinygpt import tiny_config
from nextok.lessons.worked import Example, pick
from nextok.model import build
from nextok.spec import preset_config
from nextok.train import run_options

QUICK = [example for example in EXAMPLES if not example.slow]
NAMES = [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", QUICK, ids=[example.name for example in QUICK])
def test_every_example_holds(example: Example) -> None:
    assert wrong(worked(example)) == []
    assert_well_formed(example)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_only_the_training_is_slow() -> None:
    assert [example.name for example in EXAMPLES if example.slow] == ["stretch-train"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("stretch", {6, 256, 8, 65, 4_821_248, 4_837_888, 0.23}),
        ("stretch-loop", {65, 35, 36, 37, 38, 39}),
        ("show-it-off", {7, 20.0, 10.0, "norm1, attn, norm2, mlp"}),
    ],
)
def test_the_lessons_numbers_are_there(name: str, values: set) -> None:
    assert values <= expected(EXAMPLES, name)


def test_a_prompt_has_three_examples_and_never_the_answer() -> None:
    for query, (word, answer) in enumerate(stretch._OPPOSITES):
        lines = few_shot_prompt(query).split("\n")
        assert len(lines) == 4
        assert lines[-1] == f"{word}:"
        assert not any(line.startswith(word) or line.endswith(answer) for line in lines[:-1])
    assert few_shot_prompt(0, examples=0) == "hot:"


def test_another_shape_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "preset_config", lambda name: preset_config("nano"))
    assert {"tied", "untied", "D/N"} <= wrong_now(EXAMPLES, "stretch")


def test_a_loop_that_forgets_the_prompt_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = stretch._walk
    monkeypatch.setattr(stretch, "_walk", lambda model, tokenizer, prompt, steps: walk(model, tokenizer, "b", steps))
    monkeypatch.setattr(stretch, "preset_config", lambda name: preset_config("nano"))
    assert {"context of each step", "its first guess is what it has just read"} <= wrong_now(EXAMPLES, "stretch-loop")


def test_a_model_that_sees_the_future_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "tiny_gpt", lambda: build(tiny_config(mask="none"), seed=42))
    monkeypatch.setattr(stretch, "greedy", lambda model, ids, new_tokens: (*ids, *range(new_tokens)))
    assert "one pass against seven prefixes: largest difference of the logits" in wrong_now(EXAMPLES, "show-it-off")


@pytest.mark.parametrize(("stopped_by", "error"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", SystemExit)])
def test_a_stopped_training_stops_the_example(
    monkeypatch: pytest.MonkeyPatch, stopped_by: str, error: type[BaseException]
) -> None:
    monkeypatch.setattr(stretch, "run", lambda *_, **__: SimpleNamespace(stopped_by=stopped_by))
    with pytest.raises(error) as raised:
        train_and_try()
    assert getattr(raised.value, "code", 143) == 143


def test_the_walk_shows_a_row_a_step() -> None:
    for grid, steps in zip(worked(pick(EXAMPLES, "stretch-loop")[0]).grids, (5, 6), strict=True):
        lengths = [int(row[1]) for row in grid.rows]
        assert [row[0] for row in grid.rows] == [str(step + 1) for step in range(steps)]
        assert lengths == list(range(lengths[0], lengths[0] + steps))


@pytest.mark.parametrize("phrase", ["4.8M parameters on 1.1M characters over-fit", "it shows nothing there"])
def test_the_slides_errors_are_corrected(phrase: str) -> None:
    assert phrase in corrections(QUICK)


def test_training_ends_in_losses_answers_and_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat: and the dog sat on the cat\n" * 300, encoding="utf-8")
    tiny = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": 64}
    monkeypatch.setattr(
        stretch,
        "_run_options",
        lambda folder, minutes: run_options(
            {
                "sources": (str(text),),
                "out": str(folder),
                "preset": "nano",
                "recipe": "classic",
                "tokenizer": "byte",
                "steps": 40,
                "model": tiny,
                "train": {
                    "batch_size": 4,
                    "warmup_steps": 2,
                    "lr": 1e-2,
                    "sample_tokens": 0,
                    "log_every_steps": 5,
                    "eval_every_steps": 40,
                },
            }
        ),
    )
    result = train_and_try(tmp_path / "run")
    assert wrong(result) == []
    assert (tmp_path / "run" / "model.safetensors").is_file()
    losses, messages, answers, walk = result.grids
    assert len(messages.rows) >= 1
    assert len(losses.rows) >= 4
    assert [row[0] for row in answers.rows] == [word for word, _ in stretch._OPPOSITES]
    assert len(walk.rows) == 5


@pytest.mark.slow
def test_the_real_training_holds() -> None:
    assert wrong(train_and_try(minutes=1.5)) == []
