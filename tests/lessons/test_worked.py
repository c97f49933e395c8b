"""A fact holds when computed is expected: exactly for counts and words, to the tolerance for measured values."""

import pytest

from nextok.lessons import Fact, as_given, spelled


@pytest.mark.parametrize(
    ("expected", "computed", "tolerance", "holds"),
    [
        (107_008, 107_008, 0.0, True),
        (107_008, 107_009, 0.0, False),
        (4.0511, 4.05112, 5e-5, True),
        (4.0511, 4.0513, 5e-5, False),
        ((42, 2, 38), (42, 2, 38), 0.0, True),
        ((42, 2, 38), (42, 2), 0.0, False),
        ((0.5, 0.25), (0.50004, 0.25), 5e-5, True),
        ("yes", "yes", 0.0, True),
        ("yes", "no", 1.0, False),
        (True, True, 0.0, True),
        (1.0, float("nan"), 1.0, False),
    ],
)
def test_fact_holds_to_its_tolerance(expected: object, computed: object, tolerance: float, holds: bool) -> None:
    fact = Fact(what="x", expected=expected, computed=computed, tolerance=tolerance)  # type: ignore[arg-type]
    assert fact.holds == holds


def test_values_are_spelled_for_readers() -> None:
    assert spelled(107_008) == "107,008"
    assert spelled(4.05108) == "4.0511"
    assert spelled((1.0, 0.0)) == "1.0000, 0"
    assert spelled(True) == "yes"
    assert spelled(3.14e23) == "3.14e+23"
    assert spelled((5, 12, 3)) == "5, 12, 3"
    assert (spelled(0.000977), spelled(0.0004)) == ("0.0010", "0.0004")


def test_expected_values_keep_their_digits() -> None:
    assert as_given(4.6550573) == "4.6550573"
    assert as_given((57.5, 107_008, True)) == "57.5, 107,008, yes"
    assert as_given(float("-inf")) == "-inf"
