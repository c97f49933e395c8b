"""Scaling laws: what a budget buys, by every published rule and by your own fit. No torch; runs are handed in."""

from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw

__all__ = ["FLOPS_PER_PARAMETER_AND_TOKEN", "ParametricLaw"]
