"""`nextok info MODEL`: what a model costs, exactly, and where it came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from nextok import units
from nextok.cli.options import parse
from nextok.description import Description, describe
from nextok.files import to_json
from nextok.report import fact_table, make_console, table
from nextok.spec import Counts, ModelConfig

ABOUT = "Count the parameters, FLOPs and memory of a preset, a run directory, a transformers directory or a GGUF file."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A preset (nano, gpt2, ...), a run directory, a directory that transformers reads, or a GGUF file."""
    recipe: str | None = None
    """Count the preset with this recipe's block: classic or modern."""
    vocab_size: int | None = None
    """Count the preset with this vocabulary."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="info", about=ABOUT)
    description = describe(arguments.model, recipe=arguments.recipe, vocab_size=arguments.vocab_size)
    if arguments.json:
        print(to_json(description.to_mapping(), indent=2))
    else:
        _print(description)
    return 0


def _print(description: Description) -> None:
    console = make_console()
    config, counts = description.config, description.counts
    console.print(fact_table(description.model, _shape_rows(config)))
    parts = [
        (part, f"{size:,}", f"{size / counts.parameters:.1%}")
        for part, size in counts.parameters_by_part.items()
        if size
    ]
    parts.append(("all", f"{counts.parameters:,}", "100.0%"))
    console.print(table(("parameters", "count", "share"), parts))
    console.print(fact_table("cost", _cost_rows(counts, config)))
    stored = description.parameters_in_file
    if stored is not None:
        verdict = "as counted" if stored == counts.parameters else f"counted {counts.parameters:,}"
        console.print(f"the file holds {stored:,} parameters: {verdict}")
    if description.run is not None:
        run = description.run
        console.print(
            fact_table("run", [("command", run["command"]), ("seed", str(run["seed"])), ("steps", f"{run['steps']:,}")])
        )


def _shape_rows(config: ModelConfig) -> list[tuple[str, str]]:
    heads = f"{config.n_heads}" + (
        f" ({config.n_kv_heads} of keys and values)" if config.n_kv_heads != config.n_heads else ""
    )
    return [
        ("layers, width", f"{config.n_layers}, {config.d_model}"),
        ("heads, head width", f"{heads}, {config.d_head}"),
        ("feed-forward", f"{config.mlp}, {config.d_ff}"),
        ("norm, positions", f"{config.norm} {config.norm_placement}, {config.position}"),
        ("context, vocabulary", f"{config.context:,}, {config.vocab_size:,}"),
        ("head", "tied to the token embedding" if config.tied_head else "a matrix of its own"),
    ]


def _cost_rows(counts: Counts, config: ModelConfig) -> list[tuple[str, str]]:
    return [
        ("forward, a token", units.format_flops(counts.forward_flops_per_token)),
        ("training, a token (exact)", units.format_flops(counts.training_flops_per_token)),
        ("training, a token (6 N)", units.format_flops(counts.training_flops_per_token_6n)),
        ("weights, float32", units.format_bytes(counts.weight_bytes)),
        ("training state (weights, gradients, AdamW)", units.format_bytes(counts.training_state_bytes)),
        (
            "activations of one training sequence, about",
            units.format_bytes(counts.activation_bytes_per_token * config.context),
        ),
        ("key-value cache of one full sequence", units.format_bytes(counts.kv_cache_bytes_per_token * config.context)),
    ]
