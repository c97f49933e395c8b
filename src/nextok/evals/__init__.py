"""How good a model is, in numbers that can be compared. Training and reading of models are other rooms."""

from nextok.evals.loss import LossReport, evaluate_loss, loss_report, score_batches

__all__ = ["LossReport", "evaluate_loss", "loss_report", "score_batches"]
