"""What N counts, and how far a question lies from the runs behind a rule."""

import pytest

from nextok.errors import InputError
from nextok.scaling import COUNTINGS, Covered, counted
from nextok.spec import count, preset_config


def test_n_of_the_lesson_model_by_every_way_of_counting() -> None:
    counts = count(preset_config("lesson-a"))
    assert [counted(counts, counting) for counting in COUNTINGS] == [107_008, 101_504, 103_296]


@pytest.mark.parametrize(
    ("preset", "total", "non_embedding"),
    [
        ("gpt2", 124_439_808, 85_056_000),
        ("gpt2-medium", 354_823_168, 302_311_424),
        ("gpt2-large", 774_030_080, 708_390_400),
        ("gpt2-xl", 1_557_611_200, 1_475_561_600),
    ],
)
def test_n_of_gpt2(preset: str, total: int, non_embedding: int) -> None:
    counts = count(preset_config(preset))
    assert counted(counts, "total") == total
    assert counted(counts, "non-embedding") == non_embedding


def test_decades_are_counted_from_the_nearest_run_and_the_farthest_axis() -> None:
    covered = Covered(N=(1e6, 1e9), D=(1e8, 1e10), C=(1e15, 1e19))
    assert covered.decades_outside(N=1e7, D=1e9, C=1e17) == 0
    assert covered.decades_outside(N=1e5, D=1e9, C=1e17) == pytest.approx(1)
    assert covered.decades_outside(N=1e11, D=1e9, C=1e22) == pytest.approx(3)
    assert covered.decades_outside(N=1e9, D=1e10, C=1e19) == 0


def test_nothing_known_is_nothing_outside() -> None:
    assert Covered().decades_outside(N=1.0, D=1.0, C=1.0) == 0
    assert Covered(N=(1.0, 10.0)).decades_outside(N=1000.0, D=1e30, C=1e30) == pytest.approx(2)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, float("inf")), (float("nan"), 1.0)])
def test_a_range_that_is_none_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="range of D"):
        Covered(D=bounds)
