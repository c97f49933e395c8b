"""What a run is at one moment, to disk and back: weights, optimizer, position and the best loss so far.

No generator is stored: order, dropout and samples are functions of the seed and the position (`nextok.rng`).
"""

from dataclasses import dataclass
from typing import Any

import torch

from nextok.checkpoint import Snapshot
from nextok.model import GPT, load_weights, weight_arrays
from nextok.train.optim import load_optimizer, optimizer_arrays
from nextok.train.sharded import fill, is_sharded


@dataclass(kw_only=True, slots=True)
class TrainState:
    """The part of a run that changes."""

    model: GPT
    optimizer: torch.optim.AdamW
    step: int = 0
    """Steps done; the next batch starts at sample step x batch_size."""
    updates: int = 0
    """Steps that changed the weights; fewer than `step` only where batches were skipped."""
    best_loss: float | None = None
    """Lowest validation loss so far, nats per token; none before the first evaluation."""
    best_step: int | None = None
    seconds: float = 0.0
    """Time spent in the loop, over all its sittings."""

    def to_snapshot(self) -> Snapshot:
        """Returns everything needed to go on from here; of a model cut over processes, see `saving.py`."""
        return Snapshot(
            step=self.step,
            arrays={"weights": weight_arrays(self.model), "optimizer": optimizer_arrays(self.model, self.optimizer)},
            state=self.values(),
        )

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
            load_weights(self.model, snapshot.arrays["weights"])
        updates = int(snapshot.state["updates"])
        load_optimizer(self.model, self.optimizer, snapshot.arrays["optimizer"], updates)
        self.step, self.updates = snapshot.step, updates
        self.best_loss, self.best_step = snapshot.state["best_loss"], snapshot.state["best_step"]
        self.seconds = float(snapshot.state["seconds"])
