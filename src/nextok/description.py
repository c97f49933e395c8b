"""What a model is, what it costs and where it came from: what `nextok.describe` returns and `nextok info` prints.

m = nextok.describe("gpt2")
m.counts.parameters                     # 124,439,808
m.to_mapping()                          # the object that `nextok info gpt2 --json` prints
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nextok.checkpoint import RunDirectory
from nextok.errors import ConfigError
from nextok.spec import PRESETS, Counts, ModelConfig, count, preset_config

_TOLD_ELSEWHERE = ("schema", "options", "model")


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A model in numbers, without its weights."""

    model: str
    """The preset, the folder or the file."""
    config: ModelConfig
    """What it is."""
    counts: Counts
    """What it costs, exactly."""
    parameters_in_file: int | None = None
    """Trained numbers in the files; None for a preset."""
    run: dict[str, Any] | None = None
    """The run that made it: version, command, seed, steps, corpus, machine. None where that is not known."""

    def to_mapping(self) -> dict[str, Any]:
        """Returns plain values with units in their names; what is not known is left out."""
        memory = {"training_memory_bytes_one_sequence": self.counts.training_memory_bytes(self.config.context)}
        known = {"parameters_in_file": self.parameters_in_file, "run": self.run}
        return {
            "model": self.model,
            "config": asdict(self.config),
            **asdict(self.counts),
            **memory,
            **{name: value for name, value in known.items() if value is not None},
        }


def describe(model: str | Path, *, recipe: str | None = None, vocab_size: int | None = None) -> Description:
    """Returns the options, the exact counts and the origin of a model.

    Args:
        model: A preset, a run directory, a directory that transformers reads, or a GGUF file. What exists comes
            before a preset.
        recipe: The block of a preset, classic or modern; None is the preset's own.
        vocab_size: The vocabulary of a preset; None is the preset's own.

    Raises:
        ConfigError: for a recipe there is not, or one of the two beside a folder or file.
        CheckpointError: if there is no model at the path, or it cannot be read.
    """
    folder = Path(model)
    if model in PRESETS and not folder.exists():
        config = preset_config(str(model), recipe, vocab_size=vocab_size)
        return Description(model=str(model), config=config, counts=count(config))
    if recipe is not None or vocab_size is not None:
        raise ConfigError(f"A recipe and a vocabulary size are chosen for a preset, and {model} is none.")
    from nextok.interop import summarise  # noqa: PLC0415 - torch, which a preset does not need

    config, stored = summarise(folder)
    return Description(
        model=str(model),
        config=config,
        counts=count(config),
        parameters_in_file=stored,
        run=_origin(RunDirectory(folder)),
    )


def _origin(place: RunDirectory) -> dict[str, Any] | None:
    if not place.record.is_file():
        return None
    return {name: value for name, value in place.read_run().items() if name not in _TOLD_ELSEWHERE}
