"""The course of a run in bounded memory: its last steps one by one, its past in stretches, and its evaluations.

What the rules of `nextok.train.symptoms` look at. Medians throughout, so that one odd batch bends nothing.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

RECENT_STEPS = 50
"""Steps that are kept one by one."""

_LEAST_STRETCH = 10  # steps; the median of fewer is as noisy as they are
_STRETCHES = 100  # a run, about
_NORMAL_MAD = 1.4826  # standard deviation of a normal distribution over its median absolute deviation
_NORMAL_MEDIAN = 1.2533  # standard error of a median over that of a mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Some steps in a row, summed up."""

    step: int
    """The last of them."""
    loss: float
    """Their median, nats per token."""
    grad_norm: float
    """Their median; NaN where none was measured."""
    noise: float
    """How far the losses of single steps scattered around here; NaN where that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """A validation loss and where training stood."""

    step: int
    val_loss: float
    train_loss: float
    """Median of the last steps."""


class Course:
    """What has been seen of a run of this many steps.

    Args:
        steps: Length of the whole run.
    """

    def __init__(self, steps: int) -> None:
        self.stretch_steps = max(_LEAST_STRETCH, -(-steps // _STRETCHES))
        self.step = 0
        self.first_loss = math.nan
        """Of the first step; in a resumed run of the first line of metrics."""
        self.recent: deque[float] = deque(maxlen=RECENT_STEPS)
        """Losses of the last steps that were finite."""
        self.stretches: list[Stretch] = []
        self.evaluations: list[Evaluation] = []
        self._losses: list[float] = []
        self._grad_norms: list[float] = []

    def add(self, step: int, loss: float, grad_norm: float) -> bool:
        """Takes a step with a finite loss; returns whether it ends a stretch."""
        self.step = step
        self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
        self.recent.append(loss)
        self._losses.append(loss)
        self._grad_norms.append(grad_norm)
        if len(self._losses) < self.stretch_steps:
            return False
        self._end_stretch(statistics.median(self._losses), median_of_known(self._grad_norms), self.noise)
        return True

    def evaluated(self, step: int, val_loss: float) -> None:
        """Takes a validation loss."""
        train_loss = self.level if self.recent else math.nan
        self.evaluations.append(Evaluation(step=step, val_loss=val_loss, train_loss=train_loss))

    def recall(self, records: Iterable[Mapping[str, object]]) -> None:
        """Takes the lines of metrics of a run that is resumed: means of several steps, so they say nothing of noise."""
        for record in records:
            step, loss = int(_number(record.get("step"))), _number(record.get("train_loss"))
            if math.isfinite(loss):
                last = self.stretches[-1].step if self.stretches else 0
                self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
                self._losses.append(loss)
                self._grad_norms.append(_number(record.get("grad_norm")))
                self.step = step
                if step - last >= self.stretch_steps:
                    self._end_stretch(statistics.median(self._losses), median_of_known(self._grad_norms), math.nan)
            val_loss = _number(record.get("val_loss"))
            if math.isfinite(val_loss):
                self.evaluations.append(Evaluation(step=step, val_loss=val_loss, train_loss=loss))

    @property
    def level(self) -> float:
        """Returns the median of the recent losses."""
        return statistics.median(self.recent)

    @property
    def noise(self) -> float:
        """Returns the standard deviation of the recent losses around their course; NaN before there are enough.

        From differences of neighbours, so that a loss that falls does not look noisy.
        """
        if len(self.recent) < RECENT_STEPS:
            return math.nan
        return _NORMAL_MAD * statistics.median(self._steps_apart()) / math.sqrt(2)

    @property
    def uncertainty(self) -> float:
        """Returns the standard error of the loss of a stretch; NaN before there are enough recent losses."""
        usual = median_of_known(each.noise for each in self.stretches)
        noise = self.noise if math.isnan(usual) else max(self.noise, usual)  # of 50 steps it comes out low at times
        return _NORMAL_MEDIAN * noise / math.sqrt(self.stretch_steps)

    @property
    def alternation(self) -> float:
        """Returns the correlation of each difference of neighbours with the next: -0.5 for noise, -1 for a zigzag."""
        losses = list(self.recent)
        apart = [after - before for before, after in zip(losses, losses[1:], strict=False)]
        power = sum(each * each for each in apart)
        return sum(a * b for a, b in zip(apart, apart[1:], strict=False)) / power if power else 0.0

    def _steps_apart(self) -> list[float]:
        losses = list(self.recent)
        return [abs(after - before) for before, after in zip(losses, losses[1:], strict=False)]

    def _end_stretch(self, loss: float, grad_norm: float, noise: float) -> None:
        self.stretches.append(Stretch(step=self.step, loss=loss, grad_norm=grad_norm, noise=noise))
        self._losses, self._grad_norms = [], []


def scatter(values: Iterable[float]) -> tuple[float, float]:
    """Returns median and robust standard deviation (from the median absolute deviation) of some numbers."""
    known = list(values)
    middle = statistics.median(known)
    return middle, _NORMAL_MAD * statistics.median(abs(value - middle) for value in known)


def median_of_known(values: Iterable[float]) -> float:
    """Returns the median of the numbers that are finite; NaN if there are none."""
    known = [value for value in values if math.isfinite(value)]
    return statistics.median(known) if known else math.nan


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
