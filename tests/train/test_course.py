"""The course of a run: bounded, robust, and the same after a resume where it can be."""

import math
import random

import pytest

from nextok.train.course import Course, median_of_known, scatter


def course_of(losses: list[float], steps: int | None = None) -> Course:
    course = Course(steps or len(losses))
    for step, loss in enumerate(losses, start=1):
        course.add(step, loss, 1.0)
    return course


def test_stretches_are_medians_of_ten_steps_or_a_hundredth_of_the_run() -> None:
    course = course_of([5.0] * 9 + [50.0] + [4.0] * 10)
    assert [(each.step, each.loss) for each in course.stretches] == [(10, 5.0), (20, 4.0)]
    assert Course(20).stretch_steps == 10
    assert Course(100_000).stretch_steps == 1000
    assert len(course_of([1.0] * 20_000).stretches) == 100


def test_noise_is_that_of_single_steps_whatever_the_loss_does_meanwhile() -> None:
    draw = random.Random(0)
    noise = [draw.gauss(0, 0.1) for _ in range(4000)]
    found = [course_of([3.0 - fall * i + each for i, each in enumerate(noise[k : k + 50])]).noise
             for fall in (0.0, 0.01) for k in range(0, 4000, 50)]  # fmt: skip
    assert sum(found) / len(found) == pytest.approx(0.1, rel=0.05)
    assert math.isnan(course_of(noise[:49]).noise)
    one = course_of(noise[:50])
    assert one.uncertainty == pytest.approx(1.2533 * one.noise / math.sqrt(10))
    calm = course_of([*noise[:500], *[0.001 * each for each in noise[:50]]])
    assert calm.uncertainty == pytest.approx(1.2533 * 0.1 / math.sqrt(10), rel=0.3)  # one calm window is not trusted


def test_alternation_tells_noise_from_a_zigzag() -> None:
    draw = random.Random(1)
    assert course_of([draw.gauss(3, 0.1) for _ in range(50)]).alternation == pytest.approx(-0.5, abs=0.2)
    assert course_of([3.0 + 0.1 * (-1) ** i for i in range(50)]).alternation < -0.95
    assert course_of([2.0] * 50).alternation == 0


def test_lines_of_metrics_bring_the_past_back_without_its_noise() -> None:
    losses = [5 - 0.01 * step for step in range(200)]
    lines = [{"step": step, "train_loss": losses[step - 5], "grad_norm": 1.0} for step in range(10, 201, 10)]
    lines[4] |= {"val_loss": 4.5}
    lines[7]["train_loss"] = None  # every batch was left out
    recalled = Course(200)
    recalled.recall(lines)
    whole = course_of(losses)
    assert [each.step for each in recalled.stretches] == [s for s in range(10, 201, 10) if s != 80]
    for one in recalled.stretches:
        assert one.loss == pytest.approx(whole.stretches[one.step // 10 - 1].loss, abs=0.02)
    assert [(each.step, each.val_loss) for each in recalled.evaluations] == [(50, 4.5)]
    assert math.isnan(recalled.noise)


def test_an_evaluation_remembers_where_training_stood() -> None:
    course = course_of([3.0] * 50)
    course.evaluated(50, 3.5)
    assert (course.evaluations[0].train_loss, course.evaluations[0].val_loss) == (3.0, 3.5)
    empty = Course(10)
    empty.evaluated(1, 3.5)
    assert math.isnan(empty.evaluations[0].train_loss)


def test_scatter_and_median_by_hand() -> None:
    assert scatter([1.0, 2.0, 3.0, 4.0, 1000.0]) == (3.0, pytest.approx(1.4826))
    assert median_of_known([math.nan, 2.0, math.inf, 4.0]) == 3.0
    assert math.isnan(median_of_known([math.nan]))
