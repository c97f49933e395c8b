"""What can go wrong with a run, one rule each: from its course to a finding with what to change, or nothing.

Every threshold is a multiple of the run's own noise with a floor below it, so that rules hold for batches of any size.
Rules are pure; when they are asked, and that none speaks twice, is the business of `nextok.train.doctor`.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from nextok.spec import ModelConfig
from nextok.train.config import TrainConfig
from nextok.train.course import RECENT_STEPS, Course, median_of_known, scatter
from nextok.train.events import Finding
from nextok.train.schedule import learning_rate

_SPIKE_SIGMAS = 8.0  # healthy losses stay within 4; text with odd documents within 6
_SPIKE_SHARE = 0.1  # of the level; where noise is tiny, eight times it is no event
_SPIKE_LEAST = 0.1  # nats
_SIGMAS = 6.0
_RISE_SHARE, _RISE_NATS = 0.1, 0.3
_BLOW_UP = 10.0  # times the usual gradient; over-fitting alone makes it three or four times
_GUESSING_SHARE = 0.97  # of log V; the frequencies of tokens alone bring any text below it
_GUESSING_STEPS = 100  # after the warm-up; a healthy run needs about 20
_DEAD_SHARE, _DEAD_NORM = 1e-3, 1e-3
_LEARNED_NATS = 0.1  # below, there is nothing left to learn, and gradients may vanish
_EVALUATIONS_ABOVE = 3
_OVERFIT_SHARE = 0.01
_PLATEAU_PART = 3  # a third of the run
_PLATEAU_SHARE = 0.01  # what is not worth the wait: healthy runs fall by three per cent and more in their slowest third
_PLATEAU_RATE = 0.5  # of the peak; a rate on its way down is no reason to lower it
_ZIGZAG, _ZIGZAG_SHARE = -0.85, 0.02  # noise has an alternation of -0.5 within 0.1
_SWING_GROWTH, _SWING_SHARE = 4.0, 0.05
_STRAIGHT = 0.67  # share of progress in the first half of the sum of learning rates; 0.8 and more in a healthy run
_STRAIGHT_STEPS = 200
_STRAIGHT_LEFT = 0.85  # of the first loss: a run that got further was no crawl
_LOW_RATE, _HIGH_RATE = 1e-4, 2e-2  # outside, a rate that learns nothing is to blame first


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is known of a run before it starts."""

    config: TrainConfig
    steps: int
    """Length of the run."""
    vocab_size: int
    dropout: float

    @classmethod
    def of(cls, config: TrainConfig, model: ModelConfig, steps: int) -> "Case":
        """Returns what is known of a run from its options."""
        return cls(config=config, steps=steps, vocab_size=model.vocab_size, dropout=model.dropout)

    @property
    def half_rate(self) -> str:
        """Returns the flag for half the learning rate."""
        return f"--lr {self.config.lr / 2:.2g}"


Rule = Callable[[Course, Case], Finding | None]


def jump_of(loss: float, course: Course) -> float:
    """Returns by how much a loss is above what the steps before it let expect, 0 if by nothing worth telling."""
    if len(course.recent) < RECENT_STEPS // 2:
        return 0.0
    level, sigma = scatter(course.recent)
    jump = loss - level
    return jump if jump > max(_SPIKE_SIGMAS * sigma, _SPIKE_SHARE * level, _SPIKE_LEAST) else 0.0


def spike(step: int, loss: float, course: Course, case: Case) -> Finding:
    """Tells of the first jump."""
    usual = median_of_known(each.grad_norm for each in course.stretches)
    clip = case.config.grad_clip
    clipping = f" or --grad-clip {usual:.2g}" if math.isfinite(usual) and not 0 < clip <= 2 * usual else ""
    return Finding(
        step=step,
        kind="spike",
        text=f"In step {step:,} the loss jumped to {loss:.2f}; in the steps before it lay around {course.level:.2f}.",
        advice=f"A single jump does no harm if the loss comes back. If more follow: {case.half_rate}{clipping}.",
    )


def spikes(step: int, count: int, since: int, case: Case) -> Finding:
    """Tells of jumps that have become many."""
    return Finding(
        step=step,
        kind="spikes",
        text=f"The loss has jumped {count} times since step {since:,}.",
        advice=f"The learning rate is too high for these batches: {case.half_rate}, or twice the --batch-size.",
    )


def skips(step: int, count: int, window: int, case: Case) -> Finding:
    """Tells of batches that were left out."""
    return Finding(
        step=step,
        kind="skips",
        text=f"{count} of the last {window} steps gave NaN or infinity and were left out.",
        advice=f"So many are not bad luck: {case.half_rate}"
        + (" or --precision fp32." if case.config.precision != "fp32" else "."),
    )


def diverging(course: Course, case: Case) -> Finding | None:
    """The loss has left its lowest level for good."""
    if len(course.stretches) < 3 or math.isnan(course.uncertainty):
        return None
    *before, one, two = course.stretches
    best = min(before, key=lambda each: each.loss)
    rise = max(_SIGMAS * course.uncertainty, min(_RISE_SHARE * best.loss, _RISE_NATS))
    if min(one.loss, two.loss) <= best.loss + rise:
        return None
    return Finding(
        step=course.step,
        kind="diverging",
        text=f"The training loss is rising: {two.loss:.2f} now, after {best.loss:.2f} at step {best.step:,}.",
        advice=f"The learning rate is too high. Stop the run and start again with {case.half_rate}.",
    )


def blowing_up(course: Course, case: Case) -> Finding | None:
    """Gradients have grown to many times what they were, and the loss does not fall for it."""
    if len(course.stretches) < 6 or math.isnan(course.uncertainty):
        return None
    *before, one, two = course.stretches
    usual = median_of_known(each.grad_norm for each in before)
    grown = min(one.grad_norm, two.grad_norm) > _BLOW_UP * usual > 0
    if not grown or two.loss < before[-1].loss - course.uncertainty:
        return None
    clip = min(usual, case.config.grad_clip or usual)
    return Finding(
        step=course.step,
        kind="blow-up",
        text=f"The gradient is blowing up: its norm is {two.grad_norm:.2g}, and was around {usual:.2g}.",
        advice=f"The learning rate is too high: {case.half_rate}, or --grad-clip {clip:.2g}.",
    )


def guessing(course: Course, case: Case) -> Finding | None:
    """After many steps the loss is still that of a model that has learned nothing."""
    learning = [each for each in course.stretches if each.step > case.config.warmup_steps + _GUESSING_STEPS]
    chance = math.log(case.vocab_size)
    if not learning or chance == 0 or min(each.loss for each in course.stretches) < _GUESSING_SHARE * chance:
        return None
    lr = case.config.lr
    if lr >= _HIGH_RATE:
        advice = f"The learning rate is too high: --lr {lr / 10:.2g}."
    elif lr <= _LOW_RATE:
        advice = f"The learning rate is too low: --lr {lr * 10:.2g}."
    else:
        advice = f"Look at the text, whose tokens may come in no order; then try {case.half_rate}."
    return Finding(
        step=course.step,
        kind="guessing",
        text=f"After {course.step:,} steps the loss is {learning[-1].loss:.2f}, no better than guessing among "
        f"{case.vocab_size:,} tokens (log V = {chance:.2f}).",
        advice=advice,
    )


def dead(course: Course, case: Case) -> Finding | None:
    """No gradient reaches the weights, and the loss stands still."""
    last = course.stretches[-3:]
    most = max((each.grad_norm for each in course.stretches if math.isfinite(each.grad_norm)), default=0.0)
    if len(course.stretches) < 6 or math.isnan(course.uncertainty):
        return None
    vanished = all(each.grad_norm < min(_DEAD_NORM, _DEAD_SHARE * most) for each in last)
    still = abs(last[0].loss - last[-1].loss) <= 2 * course.uncertainty + 1e-3
    if not (vanished and still and last[-1].loss > _LEARNED_NATS):
        return None
    return Finding(
        step=course.step,
        kind="dead",
        text=f"Nothing is learned any more: the gradient has all but vanished ({last[-1].grad_norm:.1g}), and the loss "
        f"stands at {last[-1].loss:.2f}.",
        advice=f"Units that died do not come back. Start again with {case.half_rate}.",
    )


def overfitting(course: Course, case: Case) -> Finding | None:
    """Validation rises while training falls."""
    if not course.evaluations or math.isnan(course.uncertainty):
        return None
    best = min(course.evaluations, key=lambda each: each.val_loss)
    later = [each for each in course.evaluations if each.step > best.step]
    margin = max(_OVERFIT_SHARE * best.val_loss, 0.01)
    if len(later) < _EVALUATIONS_ABOVE or later[-1].val_loss < best.val_loss + margin:
        return None
    if not later[-1].train_loss < best.train_loss - 2 * course.uncertainty:
        return None
    dropout = min(0.5, case.dropout + 0.1)
    return Finding(
        step=course.step,
        kind="overfitting",
        text=f"The model learns the text by heart: since step {best.step:,} validation has risen from "
        f"{best.val_loss:.3f} to {later[-1].val_loss:.3f}, while training fell from {best.train_loss:.3f} to "
        f"{later[-1].train_loss:.3f}.",
        advice=f"The weights of step {best.step:,} are kept as the best, so this run can be stopped. Next time: more "
        f"text, --dropout {dropout:.2g}, or --steps {best.step}.",
    )


def swinging(course: Course, case: Case) -> Finding | None:
    """The loss zigzags, or scatters far more than it did."""
    if math.isnan(course.noise):
        return None
    calm = min((each.noise for each in course.stretches if math.isfinite(each.noise)), default=math.nan)
    share = course.noise / course.level if course.level > 0 else 0.0
    zigzag = course.alternation < _ZIGZAG and share > _ZIGZAG_SHARE
    if not zigzag and not (course.noise > _SWING_GROWTH * calm and share > _SWING_SHARE):
        return None
    how = "from step to step" if zigzag else f"{course.noise / calm:.0f} times as far as before"
    return Finding(
        step=course.step,
        kind="swinging",
        text=f"The loss swings {how}: by about {course.noise:.2g} around {course.level:.2f}.",
        advice=f"The learning rate is too high: {case.half_rate}, or twice the --batch-size.",
    )


def plateau(course: Course, case: Case) -> Finding | None:
    """For a third of the run the loss has surely not fallen by anything worth the wait."""
    span = [each for each in course.stretches if each.step > course.step - case.steps / _PLATEAU_PART]
    full = learning_rate(course.step - 1, case.steps, case.config) >= _PLATEAU_RATE * case.config.lr
    begin = course.step - case.steps / _PLATEAU_PART
    if not full or begin < case.config.warmup_steps or len(span) < 10 or math.isnan(course.uncertainty):
        return None
    half = len(span) // 2
    level = statistics.fmean(each.loss for each in span[half:])
    fall = statistics.fmean(each.loss for each in span[:half]) - level
    error = course.uncertainty * math.sqrt(2 / half)
    if fall + 2 * error > _PLATEAU_SHARE * level or _validation_falls(course, begin):
        return None
    if not _LEARNED_NATS < level < _GUESSING_SHARE * math.log(case.vocab_size):
        return None
    rate = case.config.lr
    if rate > _LOW_RATE:
        advice = f"Too high a learning rate keeps a loss from settling: try {case.half_rate}; if that ends no lower, a"
    else:
        advice = f"The learning rate is low: try --lr {10 * rate:.2g}; if that ends no lower, a"
    return Finding(
        step=course.step,
        kind="plateau",
        text=f"The training loss has stayed within a hundredth of {level:.2f} since step {begin:,.0f}.",
        advice=f"More such steps will not help. {advice} larger model.",
    )


def straight(course: Course, case: Case) -> Finding | None:
    """At the end of the run the loss still falls as evenly as at its start: a rate too low, or a run too short."""
    if course.step < max(case.steps, _STRAIGHT_STEPS) or len(course.stretches) < 10 or math.isnan(course.uncertainty):
        return None
    spent, total = [], 0.0
    for step in range(course.step):
        total += learning_rate(step, case.steps, case.config)
        spent.append(total)
    middle = next(each for each in course.stretches if spent[min(each.step, len(spent)) - 1] >= total / 2)
    last = course.stretches[-1]
    fall, early = course.first_loss - last.loss, course.first_loss - middle.loss
    if fall < _SIGMAS * course.uncertainty or early > _STRAIGHT * fall:
        return None
    if last.loss < _STRAIGHT_LEFT * course.first_loss:
        return None
    return Finding(
        step=course.step,
        kind="straight",
        text=f"The loss fell nearly as fast from step {middle.step:,} on ({middle.loss:.2f} to {last.loss:.2f}) as "
        f"before ({course.first_loss:.2f} to {middle.loss:.2f}).",
        advice=f"The learning rate is too low, or the run too short: --lr {3 * case.config.lr:.2g}, or --steps "
        f"{2 * case.steps}.",
    )


def _validation_falls(course: Course, begin: float) -> bool:
    before = [each.val_loss for each in course.evaluations if each.step <= begin]
    after = [each.val_loss for each in course.evaluations if each.step > begin]
    return bool(before and after) and min(after) < (1 - _PLATEAU_SHARE) * min(before)
