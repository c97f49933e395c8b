"""A hook that watches the course of a run and says once what its user can mend; it changes nothing.

Spikes and skipped batches are noticed in the step in which they happen, everything else at the end of a stretch of
steps or after an evaluation. What a finding needs to be one is in `nextok.train.symptoms`.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from nextok.errors import NonFiniteError
from nextok.train.course import Course
from nextok.train.events import Event, Finding, Logged, Request, StepDone
from nextok.train.symptoms import (
    Case,
    Rule,
    blowing_up,
    dead,
    diverging,
    guessing,
    jump_of,
    overfitting,
    plateau,
    skips,
    spike,
    spikes,
    straight,
    swinging,
)

_MANY = 5  # jumps
_MANY_SKIPS = 3
_WINDOW = 100  # steps in which they are many

# Once one of a group has spoken, the others would say the same in other words.
_GROUPS: tuple[dict[str, Rule], ...] = (
    {"diverging": diverging, "blow-up": blowing_up, "swinging": swinging},
    {"guessing": guessing, "dead": dead, "plateau": plateau, "straight": straight},
)


class Doctor:
    """Finds out what is wrong with a run while it goes.

    Args:
        case: What is known of the run before it starts.
        past: Lines of metrics of a run that is resumed.
        told: Findings of it that are known already, as they were kept.
    """

    def __init__(
        self, case: Case, *, past: Iterable[Mapping[str, object]] = (), told: Iterable[Mapping[str, object]] = ()
    ) -> None:
        self._case = case
        self._course = Course(case.steps)
        self._course.recall(past)
        self._told = {str(finding.get("kind")) for finding in told}
        self._jumps: deque[int] = deque(maxlen=_MANY)
        self._skips: deque[int] = deque(maxlen=_MANY_SKIPS)
        self._jumping = False

    def __call__(self, event: Event) -> Request | None:
        """Returns what is to be told after a step or an evaluation."""
        if isinstance(event, StepDone):
            found = self._after_skip(event) if event.skipped else self._after_step(event)
        elif isinstance(event, Logged) and event.record.get("val_loss") is not None:
            self._course.evaluated(int(event.record["step"]), float(event.record["val_loss"]))
            found = [overfitting(self._course, self._case)]
        else:
            return None
        new = tuple(each for each in found if each is not None and each.kind not in self._told)
        self._told.update(each.kind for each in new)
        return Request(tell=new) if new else None

    def _after_skip(self, event: StepDone) -> list[Finding | None]:
        self._skips.append(event.step)
        if len(self._skips) < _MANY_SKIPS or event.step - self._skips[0] >= _WINDOW:
            return []
        return [skips(event.step, _MANY_SKIPS, min(_WINDOW, event.step), self._case)]

    def _after_step(self, event: StepDone) -> list[Finding | None]:
        found = self._jump(event)
        ended = self._course.add(event.step, event.train_loss, event.grad_norm)
        if ended or event.step == self._case.steps:
            found += [self._first_of(group) for group in _GROUPS]
        return found

    def _jump(self, event: StepDone) -> list[Finding | None]:
        """Notices a jump, once for each time the loss goes up and comes back."""
        was_jumping, self._jumping = self._jumping, jump_of(event.train_loss, self._course) > 0
        if not self._jumping or was_jumping:
            return []
        self._jumps.append(event.step)
        if len(self._jumps) == _MANY and event.step - self._jumps[0] < _WINDOW:
            return [spikes(event.step, _MANY, self._jumps[0], self._case)]
        return [spike(event.step, event.train_loss, self._course, self._case)]

    def _first_of(self, group: Mapping[str, Rule]) -> Finding | None:
        if self._told & group.keys():
            return None
        found = (rule(self._course, self._case) for rule in group.values())
        return next((each for each in found if each is not None), None)


def ended_by(error: NonFiniteError, step: int, case: Case) -> Finding:
    """Returns the finding of a run that NaN or infinity has ended."""
    return Finding(step=step, kind=error.slug, text=error.message, advice=f"Resume with {case.half_rate}.")
