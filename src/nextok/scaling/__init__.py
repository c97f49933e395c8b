"""Scaling laws: what a budget buys, by every published rule and by your own fit. No torch; runs are handed in."""

from nextok.scaling.budget import Budget, BudgetOptions, Speed, power, settle
from nextok.scaling.buildable import Buildable, ModelOptions, build
from nextok.scaling.covered import COUNTINGS, Counting, Covered, counted
from nextok.scaling.fitted import ConstantIntervals, FittedLaw, law_of, read_fitted_law
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw
from nextok.scaling.plan import PlanOptions, plan
from nextok.scaling.planned import Plan, PlannedModel, Repetition, RuleAnswer, TradeOff
from nextok.scaling.repetition import RepeatedData
from nextok.scaling.rules import PUBLISHED, Rule, all_rules
from nextok.scaling.tradeoffs import OtherSize, Served, cheapest_served, other_size

__all__ = [
    "COUNTINGS",
    "FLOPS_PER_PARAMETER_AND_TOKEN",
    "PUBLISHED",
    "Budget",
    "BudgetOptions",
    "Buildable",
    "ConstantIntervals",
    "Counting",
    "Covered",
    "FittedLaw",
    "ModelOptions",
    "OtherSize",
    "ParametricLaw",
    "Plan",
    "PlanOptions",
    "PlannedModel",
    "RepeatedData",
    "Repetition",
    "Rule",
    "RuleAnswer",
    "Served",
    "Speed",
    "TradeOff",
    "all_rules",
    "build",
    "cheapest_served",
    "counted",
    "law_of",
    "other_size",
    "plan",
    "power",
    "read_fitted_law",
    "settle",
]
