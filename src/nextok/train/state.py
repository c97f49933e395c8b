"""What a run is at one moment, to disk and back: trained weights, optimizer, position and the best loss so far.

No generator is stored: order, dropout and samples are functions of the seed and the position (`nextok.rng`).
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from nextok.checkpoint import Snapshot
from nextok.model import GPT, load_weights, weight_arrays
from nextok.train.average import Average
from nextok.train.optim import Optimizer
from nextok.train.sharded import fill, is_sharded


@dataclass(kw_only=True, slots=True)
class TrainState:
    """The part of a run that changes."""

    model: GPT
    optimizer: Optimizer
    average: Average | None = None
    """Running mean of the weights, where the run keeps one."""
    step: int = 0
    """Steps done; the next batch starts at sample step x batch_size."""
    updates: int = 0
    """Steps that changed the weights; fewer than `step` only where batches were skipped."""
    best_loss: float | None = None
    """Lowest validation loss so far, nats per token; none before the first evaluation."""
    best_step: int | None = None
    seconds: float = 0.0
    """Time spent in the loop, over all its sittings."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Returns the context in which the model has the weights that are evaluated and kept."""
        return nullcontext() if self.average is None else self.average.in_place()

    def to_snapshot(self) -> Snapshot:
        """Returns everything needed to go on from here; of a model cut over processes, see `saving.py`."""
        arrays = {"weights": weight_arrays(self.model, trained=True), "optimizer": self.optimizer.arrays()}
        if self.average is not None:
            arrays["average"] = self.average.arrays()
        return Snapshot(step=self.step, arrays=arrays, state=self.values())

    def values(self) -> dict[str, Any]:
        """Returns what is not an array."""
        return {
            "updates": self.updates,
            "best_loss": self.best_loss,
            "best_step": self.best_step,
            "seconds": self.seconds,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to where the snapshot was taken.

        Raises:
            CheckpointError: if the snapshot is of another model.
        """
        if is_sharded(self.model):
            for name, parameter in self.model.named_parameters():
                fill(parameter, snapshot.arrays["weights"], name)
        else:
            load_weights(self.model, snapshot.arrays["weights"], trained=True)
        updates = int(snapshot.state["updates"])
        self.optimizer.load(snapshot.arrays["optimizer"], updates)
        if self.average is not None:
            self.average.load(snapshot.arrays.get("average", snapshot.arrays["weights"]))
        self.step, self.updates = snapshot.step, updates
        self.best_loss, self.best_step = snapshot.state["best_loss"], snapshot.state["best_step"]
        self.seconds = float(snapshot.state["seconds"])
