"""The learning rate: positive at once, the peak at the end of the warm-up, the minimum in the last step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.train.config import TrainConfig
from nextok.train.schedule import learning_rate

SHAPES = ("cosine", "linear", "wsd", "constant")


def rates(steps: int, **values: object) -> list[float]:
    config = TrainConfig(lr=1.0, min_lr_fraction=0.1, **values)  # type: ignore[arg-type]
    return [learning_rate(step, steps, config) for step in range(steps)]


@pytest.mark.parametrize("schedule", SHAPES[:3])
def test_first_step_learns_peak_ends_warmup_and_minimum_ends_the_run(schedule: str) -> None:
    found = rates(1000, warmup_steps=100, schedule=schedule)
    assert found[0] == pytest.approx(1 / 101)
    assert found[99] == pytest.approx(100 / 101)
    assert found[100] == 1.0
    assert found[-1] == pytest.approx(0.1)
    assert max(found) == 1.0


def test_cosine_is_half_way_in_the_middle_and_wsd_is_level_before_its_decay() -> None:
    assert rates(1001, warmup_steps=0, schedule="cosine")[500] == pytest.approx(0.55)
    assert rates(1001, warmup_steps=0, schedule="linear")[250] == pytest.approx(0.1 + 0.9 * 0.75)
    level = rates(1001, warmup_steps=0, schedule="wsd", decay_fraction=0.4)
    assert level[600] == 1.0
    assert level[800] == pytest.approx(0.55)
    assert rates(50, warmup_steps=5, schedule="constant")[5:] == [1.0] * 45


@given(
    steps=st.integers(1, 300),
    warmup=st.integers(0, 400),
    schedule=st.sampled_from(SHAPES),
    decay=st.floats(0.01, 1.0),
)
def test_every_rate_is_a_positive_number_whatever_the_lengths(
    steps: int, warmup: int, schedule: str, decay: float
) -> None:
    found = rates(steps, warmup_steps=warmup, schedule=schedule, decay_fraction=decay)
    assert all(math.isfinite(rate) and 0 < rate <= 1.0 for rate in found)


def test_warmup_that_fills_the_run_ends_at_the_peak() -> None:
    assert rates(100, warmup_steps=100, schedule="cosine")[-1] == 1.0
    assert rates(1, warmup_steps=0, schedule="cosine") == [1.0]
    assert rates(1, warmup_steps=100, schedule="linear") == [1.0]
