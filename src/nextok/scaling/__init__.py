"""Scaling laws: what a budget buys, by every published rule and by your own fit. No torch; runs are handed in."""

from nextok.scaling.covered import COUNTINGS, Counting, Covered, counted
from nextok.scaling.fitted import ConstantIntervals, FittedLaw, law_of, read_fitted_law
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw

__all__ = [
    "COUNTINGS",
    "FLOPS_PER_PARAMETER_AND_TOKEN",
    "ConstantIntervals",
    "Counting",
    "Covered",
    "FittedLaw",
    "ParametricLaw",
    "counted",
    "law_of",
    "read_fitted_law",
]
