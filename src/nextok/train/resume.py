"""Going on with a run where it stopped: what `nextok train --resume` calls.

Weights, optimizer and position come from the last whole checkpoint, everything else from the seed, so the bits are
those of a run never stopped. What the past depends on cannot be changed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nextok import config as plain
from nextok.checkpoint import MetricsLog, RunDirectory, keep_samples_through, saved_steps
from nextok.corpus import PreparedCorpus, open_corpus
from nextok.errors import CheckpointError, ConfigError
from nextok.model import GPT, build
from nextok.spec import ModelConfig
from nextok.train.config import RunOptions, settled_options
from nextok.train.device import choose_device, use_threads
from nextok.train.events import Hook, Message, emit
from nextok.train.gradients import distribute
from nextok.train.lora import add_lora
from nextok.train.preflight import check_run
from nextok.train.processes import ALONE, Processes
from nextok.train.run import Job, RunResult, corpus_identity, length_of, new_state, settled, train_job
from nextok.train.saving import restore_state
from nextok.train.source import read_base
from nextok.train.state import TrainState
from nextok.train.trackers import check_trackers, note_tracked

# What a resumed run may not change, since what was learned so far depends on it.
_FIXED = ("sources", "preset", "recipe", "tokenizer", "init_from", "lora", "lora_alpha", "lora_targets")
_FIXED_TABLES = ("model", "corpus")
_FIXED_TRAINING = ("seed", "batch_size")


def resume(options: RunOptions, *, hooks: Sequence[Hook] = (), processes: Processes = ALONE) -> RunResult:
    """Goes on with the run at `options.out` from its last whole checkpoint, and returns how it ended.

    With the options it was started with and as many processes, the result is that of a run never stopped, to the bit on
    a CPU; with more or fewer, up to rounding. A run that ended before its first checkpoint starts over.

    Raises:
        ConfigError: if an option was changed that the past depends on, or the length asked for is already behind.
        CheckpointError: if there is no run, its corpus is another one, or none of its checkpoints is whole.
    """
    processes.check_batch(options.train.batch_size)
    device = processes.connect(choose_device(options.train.device))
    hooks = hooks if processes.leads else ()
    check_trackers(options.train.track)
    directory = RunDirectory.open(options.out)
    record = directory.read_run()
    _check_unchanged(options, saved_options(options.out))
    use_threads(options.train.threads, processes.local_world)
    corpus = _corpus_of(record, directory)
    config = plain.from_mapping(ModelConfig, record["model"], "model")
    check_run(corpus, config)
    options = settled(options, config, device, hooks, processes)
    model = _first_model(config, options, directory, record).to(device)
    gradients = distribute(model, options.train, processes)
    state = new_state(model, options.train)
    if processes.from_leader(bool(saved_steps(directory))):
        for text in restore_state(state, directory, processes):
            emit(Message(text=text, warning=True), hooks)
    elif options.init_from is not None:
        raise CheckpointError(
            f"{directory.path} ended before it had saved the model it starts from.", "Start it again as before."
        )
    steps = _steps_to_resume(options, record, state, corpus, hooks, processes)
    if processes.leads:
        note_tracked(directory)
        for path in (directory.metrics, directory.findings):
            MetricsLog(path).keep_through(state.step)
        keep_samples_through(directory.samples, state.step)
        directory.write_run({**record, "options": plain.to_mapping(options), "steps": steps})
    done = "It is finished; --steps makes it longer." if state.step >= steps else ""
    emit(Message(text=f"Resumed at step {state.step:,} of {steps:,}. {done}".rstrip()), hooks)
    return train_job(Job(directory, options.train, steps, corpus, state, gradients=gradients), hooks)


def saved_options(path: Path, changes: Mapping[str, Any] | None = None) -> RunOptions:
    """Returns the options a run was started with, its length left open, with changes on top, for `resume`.

    Raises:
        CheckpointError: if there is no run at the path.
        ConfigError: for a change that does not fit.
    """
    values = RunDirectory.open(path).read_run()["options"]
    open_ended = {"out": str(path), "steps": None, "tokens": None, "minutes": None, "train": {"pause_after_steps": 0}}
    return settled_options(plain.merge(plain.merge(values, open_ended), changes or {}))


def _first_model(config: ModelConfig, options: RunOptions, directory: RunDirectory, record: Mapping[str, Any]) -> GPT:
    """Returns the model that the checkpoint is laid over: where only adapters learn, the frozen one beside it."""
    if options.adapters is None:
        return build(config, options.train.seed)
    model = read_base(directory.path, config, record["init_from"]["base"])
    add_lora(model, options.adapters, options.train.seed)
    return model


def _corpus_of(record: Mapping[str, Any], directory: RunDirectory) -> PreparedCorpus:
    """Opens the corpus a run was started on, wherever the run directory has been moved to."""
    known = record["corpus"]
    corpus = open_corpus(directory.path / known["folder"])
    for name, value in corpus_identity(corpus).items():
        if value != known[name]:
            raise CheckpointError(
                f"The corpus in {corpus.folder} is not the one this run was started on: its {name} is {value!r}, "
                f"not {known[name]!r}.",
                "Prepare it again as it was, or start a new run.",
            )
    return corpus


def _steps_to_resume(
    options: RunOptions,
    record: Mapping[str, Any],
    state: TrainState,
    corpus: PreparedCorpus,
    hooks: Sequence[Hook],
    processes: Processes,
) -> int:
    """Returns the whole length of a resumed run: as before, or a new one; minutes are those still to come."""
    if all(length is None for length in (options.steps, options.tokens, options.minutes)):
        return int(record["steps"])
    asked = length_of(options, state.model, corpus, hooks, processes).steps + (
        state.step if options.minutes is not None else 0
    )
    if asked < state.step:
        raise ConfigError(f"The run already has {state.step:,} steps, more than the {asked:,} asked for.")
    return asked


def _check_unchanged(options: RunOptions, saved: RunOptions) -> None:
    now, before = plain.to_mapping(options), plain.to_mapping(saved)
    for name in (*_FIXED, *_FIXED_TABLES, *(f"train.{name}" for name in _FIXED_TRAINING)):
        value, old = _value_at(now, name), _value_at(before, name)
        if isinstance(value, dict):  # a table of options: name the one that differs
            part = next((part for part in value if value[part] != old[part]), "")
            name, value, old = f"{name}.{part}", value.get(part), old.get(part)
        if value != old:
            raise ConfigError(
                f"A resumed run cannot change {name}, on which what it learned depends (was {old!r}, now {value!r}).",
                "Leave the option out, or start a new run with another --out.",
            )


def _value_at(values: dict[str, Any], name: str) -> Any:
    table, _, part = name.rpartition(".")
    return values[table][part] if table else values[name]
