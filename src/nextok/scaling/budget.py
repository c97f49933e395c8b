"""The budget of a plan: exactly one thing is given, and what turns hours, money or minutes into operations is told.

A budget of compute (FLOP, device-hours, money, minutes) leaves a rule to say N and D. A budget of tokens or of
parameters fixes one of the two, and the rule says the other and C.
"""

import math
from dataclasses import dataclass
from typing import Literal

from nextok.config import unknown_name
from nextok.errors import ConfigError
from nextok.scaling.published import DEFAULT_MFU, PEAK_FLOPS_PER_S
from nextok.units import format_count, format_seconds, parse_count

Given = Literal["flops", "tokens", "parameters"]
_BUDGETS = ("flops", "tokens", "parameters", "device_hours", "money", "minutes")
_EXAMPLE_DEVICE = "h100"
# Below, not one useful step of the smallest model; above, more than all computers there are.
_PLANNED: dict[Given, tuple[float, float]] = {"flops": (1e9, 1e28), "tokens": (1e3, 1e16), "parameters": (1e3, 1e14)}


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetOptions:
    """What is given, as a person writes it: exactly one of the first six."""

    flops: int | str | None = None
    """Training compute, FLOP, such as 1e20."""
    tokens: int | str | None = None
    """Training tokens, such as 20B."""
    parameters: int | str | None = None
    """Size of the model, such as 124M."""
    device_hours: float | None = None
    """Hours of one device, summed over devices; needs --device or --flops-per-s."""
    money: float | None = None
    """What may be spent, in the currency of --price-per-hour; needs that, and --device or --flops-per-s."""
    minutes: float | None = None
    """Minutes on this machine, measured, or at --flops-per-s."""
    price_per_hour: float | None = None
    """Price of a device for an hour."""
    device: str | None = None
    """a40, a100, b200, h100, h200, l4, mi300x, rtx3090 or rtx4090: bfloat16 peaks from the data sheets."""
    devices: int = 1
    """How many work side by side; changes the time, not the compute."""
    mfu: float | None = None
    """Share of the peak that training reaches, counted by exact FLOPs; none: 0.4. Published runs imply 0.14 to 0.43."""
    flops_per_s: float | None = None
    """What training really reaches on one device, such as flops_per_s in the metrics of a run; takes the place of
    --device and --mfu."""

    def __post_init__(self) -> None:
        given = [name for name in _BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            flags = ", ".join(_flag(name) for name in given)
            raise ConfigError(
                f"The budget is given {len(given)} times: {flags}." if given else "There is no budget.",
                f"Give exactly one of {', '.join(_flag(name) for name in _BUDGETS)}.",
            )
        for name in ("device_hours", "money", "minutes", "price_per_hour", "flops_per_s"):
            value = getattr(self, name)
            _require(value is None or 0 < value < math.inf, f"{_flag(name)} {value} is not above 0.")
        for name in ("flops", "tokens", "parameters"):
            value = getattr(self, name)
            _require(value is None or parse_count(str(value)) > 0, f"{_flag(name)} {value} is not above 0.")
        _require(self.devices >= 1, f"--devices {self.devices} is below 1.")
        _require(self.mfu is None or 0 < self.mfu <= 1, f"--mfu {self.mfu} is not above 0 and at most 1.")
        if self.device is not None and self.device.lower() not in PEAK_FLOPS_PER_S:
            near = unknown_name(self.device.lower(), PEAK_FLOPS_PER_S)
            raise ConfigError(
                f"There is no device {self.device!r}.",
                near.hint.replace("Known names", "Devices") + " For any other give --flops-per-s.",
            )
        self._require_one_speed()

    def _require_one_speed(self) -> None:
        """Refuses what would be said twice, and what a budget of hours or money lacks."""
        if self.flops_per_s is not None:
            for name in ("device", "mfu"):
                _require(
                    getattr(self, name) is None,
                    f"--flops-per-s already says how fast training is; {_flag(name)} says it again.",
                    "Leave one of them out.",
                )
        timed = "device_hours" if self.device_hours is not None else "money" if self.money is not None else ""
        _require(
            not timed or self.device is not None or self.flops_per_s is not None,
            f"{_flag(timed)} buys operations only at a known speed.",
            "Add --device NAME, or --flops-per-s with what training reaches.",
        )
        _require(
            (self.money is None) == (self.price_per_hour is None),
            "--money needs --price-per-hour, the price of a device for an hour."
            if self.price_per_hour is None
            else "--price-per-hour is the price of a device, and no --money is given to spend.",
        )

    @property
    def needs_measurement(self) -> bool:
        """Whether the speed of this machine must be measured: minutes, and nothing that tells how fast."""
        return self.minutes is not None and self.flops_per_s is None and self.device is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """How fast one device trains, and on what grounds."""

    flops_per_s: float
    """What training reaches."""
    peak_flops_per_s: float | None
    """What the device reaches in matrix products; None where the speed itself was given."""
    mfu: float | None
    """Share of that peak."""
    device: str | None
    """Its name in the table of devices; None for this machine, or where the speed itself was given."""
    description: str
    """In words, with what was assumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """One number and what it is of."""

    given: Given
    """What the number counts."""
    amount: float
    """FLOP, tokens or parameters."""
    description: str
    """What was asked, and how it became that number."""
    speed: Speed
    """For the time a run takes."""
    devices: int
    """Devices side by side."""

    def __post_init__(self) -> None:
        low, high = _PLANNED[self.given]
        _require(
            low <= self.amount <= high,
            f"{self.amount:.3g} {'FLOP' if self.given == 'flops' else self.given} cannot be planned for.",
            f"Plans reach from {power(low)} to {power(high)}.",
        )

    def seconds(self, flops: float) -> float:
        """Returns the time that this compute takes."""
        return flops / (self.speed.flops_per_s * self.devices)


def settle(options: BudgetOptions, measured_flops_per_s: float | None = None) -> Budget:
    """Returns the budget as one number.

    Args:
        options: What is given.
        measured_flops_per_s: Matrix products a second on this machine, where the options need a measurement.
    """
    speed = _speed(options, measured_flops_per_s)
    for name in ("flops", "tokens", "parameters"):
        value = getattr(options, name)
        if value is not None:
            amount = float(parse_count(str(value)))
            shown = f"{power(amount)} FLOP" if name == "flops" else f"{format_count(amount)} {name}"
            return Budget(given=name, amount=amount, description=shown, speed=speed, devices=options.devices)
    seconds, asked = _device_seconds(options)
    flops = seconds * speed.flops_per_s
    said = f"{asked} at {speed.description} = {flops:.3g} FLOP".replace("e+", "e")
    return Budget(given="flops", amount=flops, description=said, speed=speed, devices=options.devices)


def power(value: float) -> str:
    """Returns a number of operations as papers write it: 5.76e23."""
    digits, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"


def _device_seconds(options: BudgetOptions) -> tuple[float, str]:
    """Returns seconds of one device, summed over devices, and how they are said."""
    if options.minutes is not None:
        times = f" x {options.devices}" if options.devices > 1 else ""
        return 60 * options.minutes * options.devices, f"{format_seconds(60 * options.minutes)}{times}"
    if options.money is not None and options.price_per_hour is not None:
        hours = options.money / options.price_per_hour
        return 3600 * hours, f"{options.money:,g} at {options.price_per_hour:g} an hour = {hours:,.4g} device-hours"
    assert options.device_hours is not None, "one budget is always given"
    return 3600 * options.device_hours, f"{options.device_hours:,g} device-hours"


def _speed(options: BudgetOptions, measured: float | None) -> Speed:
    if options.flops_per_s is not None:
        said = f"{_per_second(options.flops_per_s)} as given"
        return Speed(flops_per_s=options.flops_per_s, peak_flops_per_s=None, mfu=None, device=None, description=said)
    mfu = DEFAULT_MFU if options.mfu is None else options.mfu
    assumed = "assumed " if options.mfu is None else ""
    if options.needs_measurement:
        assert measured is not None, "minutes on this machine need its measured speed"
        peak, device, name = measured, None, f"this machine ({_per_second(measured)} of matrix products)"
    else:
        device = (options.device or _EXAMPLE_DEVICE).lower()
        peak = PEAK_FLOPS_PER_S[device]
        name = f"{device} ({_per_second(peak)} peak)"
    return Speed(
        flops_per_s=mfu * peak,
        peak_flops_per_s=peak,
        mfu=mfu,
        device=device,
        description=f"{name}, {assumed}MFU {mfu:g}",
    )


def _per_second(flops_per_s: float) -> str:
    for limit, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G")):
        if flops_per_s >= limit:
            return f"{flops_per_s / limit:,.4g} {prefix}FLOP/s"
    return f"{flops_per_s:,.4g} FLOP/s"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _require(holds: bool, message: str, hint: str = "") -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigError(message, hint)
