"""What counts as one size, and windows of one budget."""

import numpy as np

from nextok.scaling.grouping import same_size, windows


def test_neighbours_within_two_percent_are_one_size() -> None:
    assert same_size(np.array([200.0, 100.0, 101.0, 203.0, 400.0])).tolist() == [1, 0, 0, 1, 2]
    assert same_size(np.array([5.0])).tolist() == [0]


def test_windows_take_the_fullest_first_and_no_value_twice() -> None:
    C = np.array([1.0, 1.05, 1.1, 1.15, 1.2, 3.0, 3.1, 9.0])
    found = windows(C, 0.12, 2)
    assert [C[inside].tolist() for inside in found] == [[1.0, 1.05, 1.1], [1.15, 1.2], [3.0, 3.1]]
    assert windows(C, 0.12, 4) == []
