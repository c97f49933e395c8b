"""Packed files: mapped as they were written, and refused or passed over when they are of something else."""

from pathlib import Path

import numpy as np
import pytest

from engine.models import config_of, packed
from nextok.checkpoint import map_weights, write_weights
from nextok.engine import PRECISIONS, NumbaDecoder, open_packed, write_packed
from nextok.errors import InputError

SOURCE = {"model.safetensors": [1, 2]}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_mapped_model_gives_the_same_bits(precision: str, tmp_path: Path) -> None:
    model = packed(config_of("one more than a tile"), precision)
    write_packed(tmp_path / "p", model, SOURCE)
    mapped = open_packed(tmp_path / "p", SOURCE)
    assert mapped.arena.ctypes.data % 64 == 0, "tiles lie on whole lines of the cache"
    expected_TV = NumbaDecoder(model).prefill(0, [1, 2, 3], all_positions=True)
    np.testing.assert_array_equal(NumbaDecoder(mapped).prefill(0, [1, 2, 3], all_positions=True), expected_TV)


def test_a_file_of_other_weights_or_of_another_layout_is_passed_over(tmp_path: Path) -> None:
    model = packed(config_of("one more than a tile"), "int8")
    assert open_packed(tmp_path / "p", SOURCE) is None
    write_packed(tmp_path / "p", model, SOURCE)
    assert open_packed(tmp_path / "p", {"model.safetensors": [1, 3]}) is None
    arrays, metadata = map_weights(tmp_path / "p")
    write_weights(tmp_path / "q", arrays, metadata | {"format": "nextok tiles 0"})
    assert open_packed(tmp_path / "q", SOURCE) is None


@pytest.mark.parametrize("change", ["arena", "vectors", "precision", "config", "dtype", "cut"])
def test_a_file_that_contradicts_itself_is_refused(change: str, tmp_path: Path) -> None:
    write_packed(tmp_path / "p", packed(config_of("one more than a tile"), "int8"), SOURCE)
    arrays, metadata = map_weights(tmp_path / "p")
    if change in arrays:
        arrays[change] = arrays[change][:-32]
    elif change == "dtype":
        arrays["vectors"] = arrays["vectors"].astype(np.float64)
    elif change == "cut":
        del arrays["arena"]
    else:
        metadata[change] = "{}" if change == "config" else "int3"
    write_weights(tmp_path / "q", arrays, metadata)
    with pytest.raises(InputError):
        open_packed(tmp_path / "q", SOURCE)
