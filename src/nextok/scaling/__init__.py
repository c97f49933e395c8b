"""Scaling laws: what a budget buys, by every published rule and by your own fit. No torch; runs are handed in.

`nextok.scaling.envelopes` (approaches 1 and 2) stands apart: scipy is slow to load.
"""

from nextok.scaling.bootstrap import Bootstrap
from nextok.scaling.budget import Budget, BudgetOptions, Speed, power, settle
from nextok.scaling.buildable import Buildable, ModelOptions, build
from nextok.scaling.covered import COUNTINGS, Counting, Covered, counted
from nextok.scaling.design import Design, DesignOptions, PlannedRun, design, foretell
from nextok.scaling.fit import fit
from nextok.scaling.fit_result import Fit, FitOptions, intervals
from nextok.scaling.fitted import ConstantIntervals, FittedLaw, LossUnit, law_of, read_fitted_law
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw
from nextok.scaling.noise import Noise
from nextok.scaling.objective import HUBER_DELTA
from nextok.scaling.plan import PlanOptions, plan
from nextok.scaling.planned import Plan, PlannedModel, Repetition, RuleAnswer, TradeOff
from nextok.scaling.prediction import Prediction, predict, read_prediction
from nextok.scaling.repetition import RepeatedData
from nextok.scaling.rules import PUBLISHED, Rule, all_rules
from nextok.scaling.runs import Columns, LeftOut, Runs, read_runs, runs_of
from nextok.scaling.score import FinishedRun, Score, finished_run, score, score_run
from nextok.scaling.tradeoffs import OtherSize, Served, cheapest_served, other_size

__all__ = [
    "COUNTINGS",
    "FLOPS_PER_PARAMETER_AND_TOKEN",
    "HUBER_DELTA",
    "PUBLISHED",
    "Bootstrap",
    "Budget",
    "BudgetOptions",
    "Buildable",
    "Columns",
    "ConstantIntervals",
    "Counting",
    "Design",
    "DesignOptions",
    "PlannedRun",
    "design",
    "foretell",
    "Covered",
    "FinishedRun",
    "Fit",
    "FitOptions",
    "FittedLaw",
    "LeftOut",
    "LossUnit",
    "ModelOptions",
    "Noise",
    "OtherSize",
    "ParametricLaw",
    "Plan",
    "PlanOptions",
    "PlannedModel",
    "Prediction",
    "RepeatedData",
    "Repetition",
    "Rule",
    "RuleAnswer",
    "Runs",
    "Score",
    "Served",
    "Speed",
    "TradeOff",
    "all_rules",
    "build",
    "cheapest_served",
    "counted",
    "finished_run",
    "intervals",
    "fit",
    "law_of",
    "other_size",
    "plan",
    "power",
    "predict",
    "read_fitted_law",
    "read_prediction",
    "read_runs",
    "runs_of",
    "score",
    "score_run",
    "settle",
]
