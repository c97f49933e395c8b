"""The run directory: its layout, weights as safetensors, snapshots to resume from, records of what happened.

It stores and returns NumPy arrays and plain values; it knows no model, no optimizer and no foreign file format.
"""

from nextok.checkpoint.header import TensorSpec
from nextok.checkpoint.pieces import JoinedArrays, Piece, rows_of, write_pieces
from nextok.checkpoint.records import MetricsLog, append_samples, keep_samples_through, read_metrics
from nextok.checkpoint.rundir import RunDirectory
from nextok.checkpoint.snapshots import (
    Snapshot,
    Staged,
    find_snapshot,
    load_snapshot,
    read_snapshot,
    save_snapshot,
    saved_steps,
)
from nextok.checkpoint.weights import (
    Arrays,
    StoredArrays,
    map_weights,
    read_weight_shapes,
    read_weights,
    stream_weights,
    write_weights,
)

__all__ = [
    "Arrays",
    "JoinedArrays",
    "MetricsLog",
    "Piece",
    "RunDirectory",
    "Snapshot",
    "Staged",
    "StoredArrays",
    "TensorSpec",
    "append_samples",
    "find_snapshot",
    "keep_samples_through",
    "load_snapshot",
    "map_weights",
    "read_metrics",
    "read_weight_shapes",
    "read_snapshot",
    "read_weights",
    "rows_of",
    "save_snapshot",
    "saved_steps",
    "stream_weights",
    "write_pieces",
    "write_weights",
]
