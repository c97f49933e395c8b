"""The run directory: its layout, weights as safetensors, snapshots to resume from, records of what happened.

It stores and returns NumPy arrays and plain values; it knows no model, no optimizer and no foreign file format.
"""

from nextok.checkpoint.header import TensorSpec
from nextok.checkpoint.records import MetricsLog, append_samples, keep_samples_through, read_metrics
from nextok.checkpoint.rundir import RunDirectory
from nextok.checkpoint.snapshots import Snapshot, load_snapshot, save_snapshot, saved_steps
from nextok.checkpoint.weights import (
    StoredArrays,
    map_weights,
    read_weight_shapes,
    read_weights,
    stream_weights,
    write_weights,
)

__all__ = [
    "MetricsLog",
    "RunDirectory",
    "Snapshot",
    "StoredArrays",
    "TensorSpec",
    "append_samples",
    "keep_samples_through",
    "load_snapshot",
    "map_weights",
    "read_metrics",
    "read_weight_shapes",
    "read_weights",
    "save_snapshot",
    "saved_steps",
    "stream_weights",
    "write_weights",
]
