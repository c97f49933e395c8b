"""The validation loss, measured by all processes at once: each scores its share of the batches.

The sums come together in the order of the batches, so the result has the bits of one process doing it all.
"""

from dataclasses import asdict

from nextok.corpus import TokenSplit
from nextok.evals import LossReport, Score, loss_report, score_batches
from nextok.model import GPT
from nextok.train.processes import Processes
from nextok.train.sharded import only_looked_at


def evaluate(model: GPT, split: TokenSplit, processes: Processes) -> LossReport:
    """Returns the loss over the whole split to every process; all must ask."""
    with only_looked_at(model):
        scores = score_batches(model, split, first=processes.rank, every=processes.world)
    shares = processes.gathered([asdict(score) for score in scores])
    count = sum(len(share) for share in shares)
    return loss_report(split, [Score(**shares[at % processes.world][at // processes.world]) for at in range(count)])
