"""The options of a training run, and the recipe that fills them where the user says nothing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nextok import config as options
from nextok import units
from nextok.corpus import CorpusConfig
from nextok.errors import ConfigError
from nextok.spec import Architecture, architecture, find_preset, read_recipe
from nextok.train.lora import LoraConfig, LoraTargets
from nextok.train.source import with_source


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How weights change: optimizer, schedule, batch, and what happens between steps."""

    batch_size: int = 12
    """Sequences a step, over all micro-batches and processes; at least 1. Source: nanoGPT's CPU flags."""
    micro_batch_size: int = 0
    """Sequences a forward pass of a process; gradients of several are accumulated. 0: its whole share at once."""
    lr: float = 1e-3
    """Peak learning rate, reached at the end of the warm-up; above 0. The recipe says; lower it where a loss jumps."""
    min_lr_fraction: float = 0.1
    """Learning rate of the last step as a share of the peak; 0 to 1. Source: nanoGPT, a tenth."""
    warmup_steps: int = 100
    """Steps over which the rate rises, from lr / (warmup_steps + 1); at least 0."""
    schedule: Literal["cosine", "linear", "wsd", "constant"] = "cosine"
    """Way down from the peak: half a cosine, a line, or level first and a line over the last part (wsd)."""
    decay_fraction: float = 0.6
    """Share of the steps that wsd spends going down; in (0, 1]. Source: nanochat's warmdown, 0.4 to 0.65."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW for everything, or Muon for the matrices of the blocks and AdamW for the rest."""
    muon_lr: float = 0.03
    """Muon's peak learning rate, on the schedule of lr; above 0. An orthogonal matrix times this is a step."""
    muon_momentum: float = 0.95
    """Decay of Muon's running mean of gradients; in [0, 1)."""
    beta1: float = 0.9
    """AdamW's first decay rate; in [0, 1)."""
    beta2: float = 0.99
    """AdamW's second decay rate; in [0, 1). Source: nanoGPT, for few tokens a step."""
    adam_eps: float = 1e-8
    """AdamW's epsilon; above 0."""
    weight_decay: float = 0.1
    """Decay of matrices and embeddings; biases and norms never decay. Source: nanoGPT."""
    grad_clip: float = 1.0
    """Largest norm of the whole gradient; 0: no clipping."""
    ema: float = 0.0
    """Decay of a running mean of the weights, which is what is evaluated and kept; 0: the weights themselves."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16: matrix products in bfloat16, weights and optimizer in float32. auto: bf16 where the machine has it."""
    compile: bool = False
    """Compile the model with torch.compile; where that fails the run says so and goes on without."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With several processes: ddp, each holds the whole model; fsdp, each a share of weights, gradients and optimizer
    state, which takes less memory and more traffic. The losses are the same."""
    device: str = "auto"
    """`cpu`, `cuda`, `mps`, or the best there is."""
    threads: int = 0
    """Threads of torch; 0: one a core this process may use."""
    log_every_steps: int = 10
    """Steps between lines of metrics.jsonl; at least 1."""
    eval_every_steps: int = 0
    """Steps between evaluations of the whole validation split; 0: ten times a run, at least 20 steps apart."""
    save_every_steps: int = 0
    """Steps between checkpoints; 0: with each evaluation."""
    keep_last: int = 2
    """Checkpoints kept besides the best one; at least 1."""
    sample_tokens: int = 120
    """Tokens of the sample written at each evaluation; 0: no samples."""
    sample_prompt: str = "\n"
    """Text the samples start from."""
    non_finite: Literal["stop", "skip"] = "stop"
    """What a loss or gradient of NaN or infinity does: stop the run, or skip that batch and say so."""
    pause_after_steps: int = 0
    """Save and stop after this step, as if interrupted, for `--resume` to go on; 0: run to the end."""
    track: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Also hand the metrics to this tracker; repeat the flag for several. Nothing leaves the machine by itself."""
    seed: int = 1337
    """Of first weights, order of batches, dropout and samples."""

    def __post_init__(self) -> None:
        at_least = {"batch_size": 1, "log_every_steps": 1, "keep_last": 1}
        counts = ("micro_batch_size", "warmup_steps", "threads", "eval_every_steps", "save_every_steps")
        at_least |= dict.fromkeys((*counts, "sample_tokens", "pause_after_steps", "seed"), 0)
        for name, least in at_least.items():
            _require(getattr(self, name) >= least, f"{name} = {getattr(self, name)} is below {least}.")
        _require(0 < self.lr < math.inf, f"lr = {self.lr} is not a positive number.")
        _require(0 <= self.min_lr_fraction <= 1, f"min_lr_fraction = {self.min_lr_fraction} is not in 0 to 1.")
        _require(0 < self.decay_fraction <= 1, f"decay_fraction = {self.decay_fraction} is not in (0, 1].")
        _require(0 < self.muon_lr < math.inf, f"muon_lr = {self.muon_lr} is not a positive number.")
        _require(0 <= self.muon_momentum < 1, f"muon_momentum = {self.muon_momentum} is not in [0, 1).")
        _require(0 <= self.ema < 1, f"ema = {self.ema} is not in [0, 1).")
        _require(0 <= self.beta1 < 1, f"beta1 = {self.beta1} is not in [0, 1).")
        _require(0 <= self.beta2 < 1, f"beta2 = {self.beta2} is not in [0, 1).")
        _require(0 < self.adam_eps < math.inf, f"adam_eps = {self.adam_eps} is not a positive number.")
        _require(0 <= self.weight_decay < math.inf, f"weight_decay = {self.weight_decay} is not 0 or more.")
        _require(0 <= self.grad_clip < math.inf, f"grad_clip = {self.grad_clip} is not 0 or more.")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """Everything a run is a function of, and where it goes."""

    sources: tuple[str, ...] = ()
    """Files, folders, globs, a named corpus (python-stdlib, tinyshakespeare), or a prepared corpus folder."""
    out: Path = Path("runs/run")
    """Run directory to write; must not hold a run yet unless resumed."""
    preset: str = "nano"
    """Size (layers, width, heads, context): lesson-a, nano, quick, stretch, gpt2, gpt2-medium, gpt2-large, gpt2-xl."""
    recipe: str = "modern"
    """Block type and training settings: classic (GPT-2 as nanoGPT trains it) or modern; if not named, the preset's."""
    tokenizer: str = "bpe:1024"
    """char, byte, bpe:SIZE (trained on the corpus), gpt2, or the path of a tokenizer.json."""
    init_from: Path | None = None
    """Model to start from: a run, a directory of transformers, a GGUF file. Its architecture and tokenizer are kept."""
    lora: int = 0
    """Rank of adapters that learn in place of the model's own weights; 0: none. 8 or 16 is usual. Source: Hu et al."""
    lora_alpha: float = 0.0
    """Adapters are scaled by alpha / rank; 0: as the rank, a scale of 1."""
    lora_targets: LoraTargets = "all"
    """Linear maps that get adapters: those of attention, of the feed-forward networks, or all."""
    steps: int | None = None
    """Length of the run in steps; none: the recipe's, unless minutes or tokens say."""
    tokens: int | str | None = None
    """Length of the run in training tokens, such as 20M."""
    minutes: float | None = None
    """Length of the run in minutes on this machine, measured before it starts; final evaluation included."""
    model: Architecture = field(default_factory=Architecture)
    """Single parts and sizes, over those of the preset and the recipe."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """How the text is read and split."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How the weights change."""

    def __post_init__(self) -> None:
        lengths = [name for name in ("steps", "tokens", "minutes") if getattr(self, name) is not None]
        _require(len(lengths) <= 1, f"the length of the run is given twice: {' and '.join(lengths)}.")
        _require(self.steps is None or self.steps >= 1, f"steps = {self.steps} is below 1.")
        _require(self.minutes is None or 0 < self.minutes < math.inf, f"minutes = {self.minutes} is not above 0.")
        _require(self.lora >= 0, f"lora = {self.lora} is negative.")
        _require(
            not self.lora or self.train.parallel == "ddp",
            "adapters are small: train them with --parallel ddp, not fsdp.",
        )
        _require(0 <= self.lora_alpha < math.inf, f"lora_alpha = {self.lora_alpha} is not 0 or more.")
        _require(not self.lora or self.init_from is not None, "adapters need a model to adapt: add --init-from MODEL.")
        _require(self.tokens is None or units.parse_count(str(self.tokens)) >= 1, f"tokens = {self.tokens} is below 1.")

    @property
    def adapters(self) -> LoraConfig | None:
        """What adapters the model gets, if any."""
        if not self.lora:
            return None
        return LoraConfig(rank=self.lora, alpha=self.lora_alpha or float(self.lora), targets=self.lora_targets)


def run_options(values: Mapping[str, Any]) -> RunOptions:
    """Returns the options from plain values, with preset and recipe, or the model to start from, under what they leave.

    Raises:
        ConfigError: for an unknown name or a value that does not fit.
        CheckpointError: if the model to start from cannot be read.
    """
    return settled_options(values if values.get("init_from") is None else with_source(values))


def settled_options(values: Mapping[str, Any]) -> RunOptions:
    """Returns the same without looking at the model to start from: for values that its options are already among.

    Raises:
        ConfigError: for an unknown name or a value that does not fit.
    """
    preset, recipe = values.get("preset", "nano"), values.get("recipe")
    model = options.to_mapping(architecture(preset, recipe, _table(values, "model")))
    recipe = recipe or find_preset(preset).recipe
    train = {**read_recipe(recipe)["train"], **_table(values, "train")}
    return options.from_mapping(RunOptions, {**values, "recipe": recipe, "model": model, "train": train})


def recipe_steps(recipe: str) -> int:
    """Returns the length of a run for which nothing else is said."""
    return int(read_recipe(recipe)["run"]["steps"])


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = values.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} = {table!r} is not a table of options.")
    return table


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigError(f"This run cannot start: {message}")
