"""Single rules at their edges; whole courses are in test_doctor."""

import math
import random

import pytest

from nextok.spec import ModelConfig
from nextok.train.config import TrainConfig
from nextok.train.course import Course
from nextok.train.symptoms import Case, diverging, guessing, jump_of, overfitting, plateau


def level_course(loss: float, noise: float, steps: int = 300, planned: int = 300) -> Course:
    draw, course = random.Random(0), Course(planned)
    for step in range(1, steps + 1):
        course.add(step, loss + draw.gauss(0, noise), 1.0)
    return course


def case(**values: object) -> Case:
    config = TrainConfig(lr=3e-3, warmup_steps=10, schedule="constant")
    return Case(**{"config": config, "steps": 300, "vocab_size": 65, "dropout": 0.0, **values})  # type: ignore[arg-type]


def test_a_case_is_made_of_the_options() -> None:
    model = ModelConfig(vocab_size=65, dropout=0.2)
    made = Case.of(TrainConfig(lr=3e-3), model, 7)
    assert (made.steps, made.vocab_size, made.dropout, made.half_rate) == (7, 65, 0.2, "--lr 0.0015")


@pytest.mark.parametrize(
    ("noise", "loss", "is_jump"),
    [
        (0.05, 2.6, True),
        (0.05, 2.15, False),  # less than a tenth of the level
        (0.2, 3.2, False),  # six deviations
        (0.2, 4.2, True),
        (0.05, 1.0, False),  # down is no illness
    ],
)
def test_a_jump_is_out_of_proportion_to_noise_and_level(noise: float, loss: float, is_jump: bool) -> None:
    assert (jump_of(loss, level_course(2.0, noise)) > 0) == is_jump


def test_nothing_is_a_jump_before_there_is_something_to_compare_with() -> None:
    assert jump_of(100.0, level_course(2.0, 0.1, steps=24)) == 0
    assert jump_of(100.0, level_course(2.0, 0.1, steps=25)) > 90


def test_two_stretches_make_a_divergence_and_one_does_not() -> None:
    course = level_course(2.0, 0.02, steps=200)
    for step in range(201, 211):
        course.add(step, 2.5, 1.0)
    assert diverging(course, case()) is None
    for step in range(211, 221):
        course.add(step, 2.6, 1.0)
    found = diverging(course, case())
    assert found is not None
    assert "2.60 now" in found.text


def test_guessing_knows_the_vocabulary() -> None:
    course = level_course(math.log(65), 0.02)
    assert guessing(course, case()) is not None
    assert guessing(course, case(vocab_size=256)) is None
    assert guessing(course, case(vocab_size=1)) is None


def test_overfitting_needs_three_evaluations_above_the_best() -> None:
    course = level_course(2.0, 0.01, steps=100)
    course.evaluated(100, 2.1)
    for step in range(101, 301):
        course.add(step, 1.0 + 0.01 * (step % 2), 1.0)
    for number, step in enumerate((200, 250), start=2):
        course.evaluated(step, 2.1 + 0.1 * number)
        assert overfitting(course, case()) is None
    course.evaluated(300, 2.5)
    found = overfitting(course, case(dropout=0.2))
    assert found is not None
    assert "--dropout 0.3" in found.advice


def test_a_plateau_is_only_called_where_noise_lets_one_be_sure() -> None:
    assert plateau(level_course(2.0, 0.02), case()) is not None
    assert plateau(level_course(2.0, 0.5), case()) is None


def test_a_plateau_under_a_low_rate_asks_for_a_higher_one() -> None:
    found = plateau(level_course(2.0, 0.02), case(config=TrainConfig(lr=1e-5, warmup_steps=10, schedule="constant")))
    assert found is not None
    assert "--lr 0.0001" in found.advice


def test_a_plateau_is_none_while_validation_falls_or_the_rate_does() -> None:
    course = level_course(2.0, 0.02)
    for step, val_loss in ((100, 2.2), (250, 2.0)):
        course.evaluated(step, val_loss)
    assert plateau(course, case()) is None
    falling = TrainConfig(lr=3e-3, warmup_steps=10, schedule="linear")
    assert plateau(level_course(2.0, 0.02), case(config=falling)) is None
