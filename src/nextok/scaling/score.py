"""What a prediction was worth, once the run is over: in nats, in sigmas, as a share of the excess, as compute."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nextok import config as options
from nextok.checkpoint import RunDirectory, read_metrics
from nextok.errors import InputError
from nextok.scaling.covered import counted
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.prediction import Prediction
from nextok.scaling.search import crossing
from nextok.spec import ModelConfig, count

_SAME_RUN = 0.01  # N and D of a run may differ by a hundredth from those predicted for
_FACTORS = 12.0  # decades of compute that are searched, on each side


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun:
    """What a run directory says of how it ended."""

    name: str
    config: ModelConfig
    tokens: float
    """Seen in training, repeats included."""
    loss: float
    """Last validation loss, nats a token."""
    started: datetime
    """When its record was written."""
    ended: datetime
    """When its last measurement was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A prediction beside what was measured."""

    predicted: float
    measured: float
    error: float
    """Measured less predicted, in the unit of the loss; above 0: worse than predicted."""
    sigmas: float
    """The error in the prediction's standard deviations."""
    inside: bool
    """Whether the interval holds the measured loss."""
    share_of_excess: float
    """The error over what the prediction lay above E: 0.05 is 5 % of all that training can still gain."""
    compute_factor: float | None
    """At the same D/N the law reaches the measured loss with this much of the compute: 0.8 is a run as good as one
    of 80 %. None where no compute reaches it, because it is not above E."""
    remarks: tuple[str, ...]
    """What speaks against the comparison."""


def score(prediction: Prediction, loss: float) -> Score:
    """Returns how a measured loss compares with the prediction.

    Raises:
        InputError: if the loss is not above 0.
    """
    if not (math.isfinite(loss) and loss > 0):
        raise InputError(f"A loss of {loss} is not above 0.")
    low, high = prediction.interval
    error = loss - prediction.loss
    return Score(
        predicted=prediction.loss,
        measured=loss,
        error=error,
        sigmas=error / prediction.sigma,
        inside=low <= loss <= high,
        share_of_excess=error / (prediction.loss - prediction.law.E),
        compute_factor=compute_factor(prediction.law, prediction.N, prediction.D, loss),
        remarks=("no run was named, so whether the prediction came first is not known",),
    )


def score_run(prediction: Prediction, run: FinishedRun) -> Score:
    """Returns how the final validation loss of a run compares, and whether it is the run that was predicted."""
    if prediction.loss_unit != "nats/token":
        hint = "Hand its loss in with --loss."
        raise InputError(f"The prediction is in {prediction.loss_unit}, and the run's loss in nats/token.", hint)
    found = score(prediction, run.loss)
    return Score(**{**options.to_mapping(found), "remarks": tuple(_remarks(prediction, run))})


def compute_factor(law: ParametricLaw, N: float, D: float, loss: float) -> float | None:
    """Returns the share of 6 N D with which the law reaches the loss at the same D/N; None if it is not above E."""
    if loss <= law.E:
        return None

    def too_much(log_factor: float) -> float:
        root = math.exp(log_factor / 2)
        return loss - law.loss(N * root, D * root)

    reach = _FACTORS * math.log(10)
    return math.exp(crossing(too_much, -reach, reach))


def finished_run(path: Path) -> FinishedRun:
    """Returns how a run ended.

    Raises:
        CheckpointError: if the folder holds no run.
        InputError: if the run has no validation loss, or has not come to its end.
    """
    run = RunDirectory.open(path)
    record = run.read_run()
    records = read_metrics(run.metrics)
    measured = next((row for row in reversed(records) if row.get("val_loss") is not None), None)
    if measured is None:
        raise InputError(f"{path} has no validation loss to score.", "Hand one in with --loss.")
    last = records[-1].get("step", 0)
    if last < record["steps"]:
        raise InputError(f"{path} stands at step {last:,} of {record['steps']:,}.", "Score it when it is over.")
    return FinishedRun(
        name=path.name,
        config=options.from_mapping(ModelConfig, record["model"], "model"),
        tokens=float(records[-1]["tokens"]),
        loss=float(measured["val_loss"]),
        started=_written(run.record),
        ended=_written(run.metrics),
    )


def _remarks(prediction: Prediction, run: FinishedRun) -> list[str]:
    remarks = []
    written = prediction.time()
    if written >= run.ended:
        remarks.append(f"the prediction was written after {run.name} had ended: it proves nothing")
    elif written >= run.started:
        remarks.append(f"the prediction was written while {run.name} was running")
    pairs = (("N", prediction.N, counted(count(run.config), prediction.counting)), ("D", prediction.D, run.tokens))
    remarks += [
        f"the prediction is for {name} = {wanted:.4g}, and {run.name} has {had:.4g}"
        for name, wanted, had in pairs
        if abs(had / wanted - 1) > _SAME_RUN
    ]
    return remarks


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
