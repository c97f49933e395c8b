"""Curves over quantities of many sizes, as data for a plot: what is drawn, apart from how, which is slow to load."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One line, with a band around it where its interval is known."""

    name: str
    """Shown at its end."""
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """Lower edge of the band, as long as y."""
    high: Sequence[float] | None = None
    """Upper edge."""
    leading: bool = False
    """Drawn strong, over the others."""

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        assert len(lengths) == 1, f"the columns of {self.name} are {lengths} long"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One measured or chosen point."""

    x: float
    y: float
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cloud:
    """Many measured points of one kind."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.y), f"the columns of {self.name} are {len(self.x)} and {len(self.y)} long"


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One pair of axes, logarithmic unless said otherwise."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    points: Sequence[Point] = ()
    clouds: Sequence[Cloud] = ()
    mark_x: float | None = None
    """A vertical line, such as the budget."""
    mark_name: str = ""
    log_x: bool = True
    log_y: bool = True
    y_limits: tuple[float, float] | None = None
    """What is shown of y; curves may leave it. None: all."""
