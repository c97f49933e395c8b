"""One budget and no more: how hours, money and minutes become operations, and what is refused."""

from typing import Any

import pytest

from nextok.errors import ConfigError
from nextok.scaling import BudgetOptions, power, settle


def test_counts_are_taken_as_people_write_them() -> None:
    assert settle(BudgetOptions(flops="5.88e23")).amount == 5.88e23
    budget = settle(BudgetOptions(tokens="20B"))
    assert (budget.given, budget.amount) == ("tokens", 20e9)
    assert settle(BudgetOptions(parameters=124_439_808)).given == "parameters"


def test_1e23_operations_are_seventy_thousand_h100_hours_at_forty_percent() -> None:
    budget = settle(BudgetOptions(device_hours=70_217, device="h100", mfu=0.4))
    assert budget.given == "flops"
    assert budget.amount == pytest.approx(1e23, rel=1e-3)
    assert budget.seconds(1e23) / 3600 == pytest.approx(70_217, rel=1e-3)


def test_money_buys_hours() -> None:
    bought = settle(BudgetOptions(money=1000.0, price_per_hour=2.5, device="A100"))
    hours = settle(BudgetOptions(device_hours=400.0, device="a100"))
    assert bought.amount == pytest.approx(hours.amount)
    assert "400 device-hours" in bought.description


def test_minutes_on_this_machine_are_a_share_of_what_was_measured() -> None:
    options = BudgetOptions(minutes=10.0, mfu=0.5)
    assert options.needs_measurement
    budget = settle(options, 80e9)
    assert budget.amount == pytest.approx(600 * 40e9)
    assert "this machine" in budget.description


def test_what_is_assumed_is_said() -> None:
    assert "assumed MFU 0.4" in settle(BudgetOptions(minutes=1.0), 80e9).description
    assert "assumed" not in settle(BudgetOptions(minutes=1.0, mfu=0.4), 80e9).description


def test_a_measured_speed_needs_no_share() -> None:
    options = BudgetOptions(minutes=10.0, flops_per_s=40e9)
    assert not options.needs_measurement
    assert settle(options).amount == pytest.approx(600 * 40e9)


def test_devices_change_the_time_of_hours_and_the_compute_of_minutes() -> None:
    one, four = (settle(BudgetOptions(device_hours=8.0, device="l4", devices=n)) for n in (1, 4))
    assert one.amount == four.amount
    assert one.seconds(one.amount) == pytest.approx(4 * four.seconds(four.amount))
    minutes = settle(BudgetOptions(minutes=30.0, device="l4", devices=4))
    assert minutes.seconds(minutes.amount) == pytest.approx(1800)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no budget"),
        ({"flops": "1e20", "tokens": "1B"}, "given 2 times: --flops, --tokens"),
        ({"minutes": 3.0, "money": 5.0, "price_per_hour": 1.0}, "given 2 times: --money, --minutes"),
        ({"flops": "0"}, "--flops 0"),
        ({"flops": "many"}, "not a count"),
        ({"tokens": 999}, "999 tokens cannot be planned for"),
        ({"flops": "1e8"}, "1e.08 FLOP cannot be planned for"),
        ({"parameters": "1e20"}, "cannot be planned for"),
        ({"device_hours": 1e300, "device": "h100"}, "cannot be planned for"),
        ({"minutes": float("nan")}, "--minutes nan"),
        ({"minutes": -1.0}, "--minutes -1"),
        ({"device_hours": 10.0}, "only at a known speed"),
        ({"money": 10.0, "price_per_hour": 1.0}, "only at a known speed"),
        ({"money": 10.0, "device": "h100"}, "--money needs --price-per-hour"),
        ({"flops": "1e20", "price_per_hour": 2.0}, "no --money"),
        ({"flops": "1e20", "device": "h101"}, "no device 'h101'"),
        ({"flops": "1e20", "flops_per_s": 1e12, "device": "h100"}, "--device says it again"),
        ({"flops": "1e20", "flops_per_s": 1e12, "mfu": 0.4}, "--mfu says it again"),
        ({"flops": "1e20", "mfu": 1.5}, "--mfu 1.5"),
        ({"flops": "1e20", "mfu": 0.0}, "--mfu 0"),
        ({"flops": "1e20", "devices": 0}, "--devices 0"),
    ],
)
def test_contradictory_and_impossible_budgets_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settle(BudgetOptions(**options))


def test_powers_are_written_as_in_papers() -> None:
    assert [power(value) for value in (5.76e23, 1e20, 2.5e5, 120.0)] == ["5.76e23", "1e20", "2.5e5", "1.2e2"]
