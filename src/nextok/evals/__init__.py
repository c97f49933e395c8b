"""How good a model is, in numbers that can be compared. Training and reading of models are other rooms."""

from nextok.evals.loss import LossReport, PieceLosses, evaluate_loss, piece_losses
from nextok.evals.stats import Interval, paired_interval, unpaired_interval

__all__ = [
    "Interval",
    "LossReport",
    "PieceLosses",
    "evaluate_loss",
    "paired_interval",
    "piece_losses",
    "unpaired_interval",
]
