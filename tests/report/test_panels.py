"""Curves whose columns do not belong together are our own mistake."""

import pytest

from nextok.report.panels import Cloud, Curve


def test_columns_are_of_one_length() -> None:
    assert Curve(name="a", x=[1.0, 2.0], y=[3.0, 4.0], low=[2.0, 3.0], high=[4.0, 5.0]).name == "a"
    with pytest.raises(AssertionError, match="columns of a"):
        Curve(name="a", x=[1.0, 2.0], y=[3.0])
    with pytest.raises(AssertionError, match="columns of a"):
        Curve(name="a", x=[1.0, 2.0], y=[3.0, 4.0], low=[1.0])
    with pytest.raises(AssertionError, match="columns of c"):
        Cloud(name="c", x=[1.0, 2.0], y=[3.0])
