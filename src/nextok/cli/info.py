"""`nextok info MODEL`: what a model costs, exactly, and where it came from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from nextok import units
from nextok.checkpoint import RunDirectory
from nextok.cli.options import parse
from nextok.files import to_json
from nextok.report import fact_table, make_console, table
from nextok.spec import PRESETS, Counts, ModelConfig, count, preset_config

ABOUT = "Count the parameters, FLOPs and memory of a preset, a run directory or a directory of transformers."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    model: Annotated[str, tyro.conf.Positional]
    """A preset (nano, gpt2, ...), a run directory, or a directory that transformers reads."""
    recipe: str | None = None
    """Count the preset with this recipe's block: classic or modern."""
    vocab_size: int | None = None
    """Count the preset with this vocabulary."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="info", about=ABOUT)
    report = describe(arguments.model, recipe=arguments.recipe, vocab_size=arguments.vocab_size)
    if arguments.json:
        print(to_json(report, indent=2))
    else:
        _print(report)
    return 0


def describe(name: str, *, recipe: str | None = None, vocab_size: int | None = None) -> dict[str, Any]:
    """Returns the config, the exact counts and the provenance of a model, with units in the names."""
    if name in PRESETS and not Path(name).exists():
        return _report(name, preset_config(name, recipe, vocab_size=vocab_size))
    from nextok.interop import read_config, stored_parameters

    folder = Path(name)
    config = read_config(folder)
    report = _report(name, config) | {"parameters_in_file": stored_parameters(folder)}
    if RunDirectory(folder).record.is_file():
        run = RunDirectory(folder).read_run()
        report["run"] = {
            key: run[key] for key in ("nextok", "command", "seed", "steps", "corpus", "tokenizer", "machine")
        }
    return report


def _report(name: str, config: ModelConfig) -> dict[str, Any]:
    counts = count(config)
    batch_tokens = config.context
    derived = {"training_memory_bytes_one_sequence": counts.training_memory_bytes(batch_tokens)}
    return {"model": name, "config": asdict(config), **asdict(counts), **derived}


def _print(report: dict[str, Any]) -> None:
    console = make_console()
    config = ModelConfig(**report["config"])
    counts = Counts(**{name: report[name] for name in Counts.__dataclass_fields__})
    console.print(fact_table(report["model"], _shape_rows(config)))
    parts = [
        (part, f"{size:,}", f"{size / counts.parameters:.1%}")
        for part, size in counts.parameters_by_part.items()
        if size
    ]
    parts.append(("all", f"{counts.parameters:,}", "100.0%"))
    console.print(table(("parameters", "count", "share"), parts))
    console.print(fact_table("cost", _cost_rows(counts, config)))
    if "parameters_in_file" in report:
        same = report["parameters_in_file"] == counts.parameters
        verdict = "as counted" if same else f"counted {counts.parameters:,}"
        console.print(f"the file holds {report['parameters_in_file']:,} parameters: {verdict}")
    if "run" in report:
        run = report["run"]
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
