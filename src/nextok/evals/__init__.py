"""How good a model is, in numbers that can be compared. Training and reading of models are other rooms."""

from nextok.evals.loss import LossReport, evaluate_loss

__all__ = ["LossReport", "evaluate_loss"]
