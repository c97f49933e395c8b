"""What follows from the fields of an answer."""

import pytest

from nextok.scaling import RuleAnswer


def answer(interval: tuple[float, float] | None) -> RuleAnswer:
    return RuleAnswer(
        rule="besiroglu",
        source="",
        counting="total",
        parameters=100.0,
        tokens=2000.0,
        flops=1.2e6,
        parameters_interval=interval,
        loss=None,
        loss_interval=None,
        loss_unit="nats/token",
        loss_of="",
        extrapolated_decades=0.0,
        remark="",
    )


def test_the_interval_of_the_ratio_is_that_of_the_parameters_turned_around() -> None:
    assert answer((50.0, 200.0)).ratio_interval == pytest.approx((1.2e6 / 6 / 200**2, 1.2e6 / 6 / 50**2))


def test_without_an_interval_there_is_none() -> None:
    assert answer(None).ratio_interval is None
    assert answer(None).tokens_per_parameter == 20
