"""What a person sees in a terminal: the console, progress, the training display, tables.

It computes nothing about models. Plots are in `nextok.report.plots`, apart because matplotlib is slow to load.
"""

from nextok.report.console import make_console, plain_text
from nextok.report.progress import WorkProgress
from nextok.report.sparkline import sparkline
from nextok.report.tables import fact_table, table
from nextok.report.training import TrainingDisplay

__all__ = ["TrainingDisplay", "WorkProgress", "fact_table", "make_console", "plain_text", "sparkline", "table"]
