"""Runs beside each other: what differs in their options, and whether their losses differ by more than noise."""

from nextok.comparison.compare import Comparison, Difference, compare_runs
from nextok.comparison.runs import Run, differing_options, groups_of, read_run

__all__ = ["Comparison", "Difference", "Run", "compare_runs", "differing_options", "groups_of", "read_run"]
