"""Adapters in the layout of PEFT: `adapter_config.json` and `adapter_model.safetensors`, for the family of the model.

One native map may be several foreign ones (queries, keys and values). They share A, and each takes its own rows of B,
so what is written computes exactly what was trained. A model that no family has keeps its native names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextok.checkpoint import write_weights
from nextok.files import write_json
from nextok.interop.fields import family_of
from nextok.interop.names import places, written_name
from nextok.spec import ModelConfig

ADAPTER_FOLDER = "adapter"
"""Not the folder of the model: transformers takes one that holds adapter_config.json for an adapter alone."""

_Matrices = tuple[NDArray[np.float32], NDArray[np.float32]]


def write_adapter(
    folder: Path, config: ModelConfig, adapters: Mapping[str, _Matrices], *, rank: int, alpha: float
) -> None:
    """Writes both files into `folder/adapter`; each is whole or as it was.

    Args:
        folder: The run directory.
        config: The model that is adapted.
        adapters: A [rank, in] and B [out, rank] by native name of the linear map.
        rank: Of all of them.
        alpha: The product B A is scaled by alpha / rank.

    Raises:
        DiskError: if a file cannot be written.
    """
    family, _ = family_of(config)
    arrays: dict[str, NDArray[Any]] = {}
    targets: set[str] = set()
    for name, (a_RI, b_OR) in adapters.items():
        place = places(family, config)[f"{name}.weight"]
        for part, rows_OR in zip(place.names, np.split(b_OR, np.cumsum(place.rows)[:-1]), strict=True):
            module = written_name(family, part).removesuffix(".weight")
            targets.add(".".join(module.split(".")[-2:]))  # `c_proj` alone would be those of attention and of the MLP
            arrays[f"base_model.model.{module}.lora_A.weight"] = a_RI.copy()  # once a part: PEFT knows no sharing
            arrays[f"base_model.model.{module}.lora_B.weight"] = rows_OR
    out = folder / ADAPTER_FOLDER
    out.mkdir(exist_ok=True)
    write_weights(out / "adapter_model.safetensors", arrays)
    write_json(
        out / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": None,
            "r": rank,
            "lora_alpha": alpha,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": family == "gpt2",
            "target_modules": sorted(targets),
            "inference_mode": True,
        },
    )
