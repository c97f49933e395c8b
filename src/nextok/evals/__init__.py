"""How good a model is, in numbers that can be compared. Training and reading of models are other rooms."""

from nextok.evals.loss import LossReport, PieceLosses, Score, evaluate_loss, loss_report, piece_losses, score_batches
from nextok.evals.stats import Interval, paired_interval, unpaired_interval

__all__ = [
    "Interval",
    "LossReport",
    "PieceLosses",
    "Score",
    "evaluate_loss",
    "loss_report",
    "paired_interval",
    "piece_losses",
    "score_batches",
    "unpaired_interval",
]
