"""A training run from sources to a run directory: what `nextok train` calls.

Everything that can fail for a reason the user can mend is checked before the first step: options, corpus, lengths,
vocabulary, the folder. `run.json` is written once the run is sure to start; from then on `resume` can go on with it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nextok
from nextok import config as plain
from nextok import files, machine, units
from nextok.checkpoint import MetricsLog, RunDirectory, load_snapshot, read_metrics
from nextok.corpus import MANIFEST_NAME, Batches, PreparedCorpus, PrepareProgress, open_corpus, prepare
from nextok.errors import CheckpointError, ConfigError, CorpusError
from nextok.interop import write_description
from nextok.model import GPT, build
from nextok.spec import ModelConfig, count
from nextok.train.calibrate import calibrate
from nextok.train.config import RunOptions, TrainConfig, recipe_steps, run_options
from nextok.train.device import choose_device, choose_forward, use_threads
from nextok.train.events import Hook, Message, emit
from nextok.train.interrupt import Interrupts
from nextok.train.loop import Setting, train
from nextok.train.optim import make_optimizer
from nextok.train.preflight import check_run, warnings_before
from nextok.train.recorders import Recorder
from nextok.train.state import TrainState
from nextok.train.step import micro_batches

OnPrepare = Callable[[PrepareProgress], None]

# What a resumed run may not change, since what was learned so far depends on it.
_FIXED = ("sources", "preset", "recipe", "tokenizer", "model", "corpus")
_FIXED_TRAINING = ("seed", "batch_size")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """How a run ended."""

    path: Path
    step: int
    steps: int
    tokens: int
    """Training tokens seen, repeats included."""
    seconds: float
    """In the training loop, over all its sittings."""
    train_loss: float | None
    val_loss: float | None
    """Last measured, nats per token."""
    val_bits_per_byte: float | None
    best_val_loss: float | None
    best_step: int | None
    stopped_by: str | None
    """The signal or option that ended it early; none at the end."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A run that is ready to be trained."""

    run: RunDirectory
    config: TrainConfig
    steps: int
    corpus: PreparedCorpus
    state: TrainState


def run(
    options: RunOptions,
    *,
    cache: Path,
    command: str = "",
    hooks: Sequence[Hook] = (),
    on_prepare: OnPrepare | None = None,
) -> RunResult:
    """Trains a new model into `options.out` and returns how it ended.

    Args:
        options: What the run is a function of.
        cache: Folder for downloads that a named corpus or tokenizer needs.
        command: What the user typed, to keep with the run.
        hooks: Get every event; see `nextok.train.events`.
        on_prepare: Gets the progress of reading and tokenising the corpus.

    Raises:
        NextokError: in one of its kinds; before the first step unless a number or the disk fails.
    """
    if not options.sources:
        raise CorpusError("Nothing to train on was named.", "Name files, folders, or python-stdlib.")
    use_threads(options.train.threads)
    directory = RunDirectory.create(options.out)
    with _removed_unless_started(directory):
        corpus = _corpus(options, directory, cache, on_prepare)
        config = ModelConfig.of(options.model, corpus.tokenizer.vocab_size)
        check_run(corpus, config)
        model = build(config, options.train.seed).to(choose_device(options.train.device))
        steps = _steps(options, model, corpus, hooks)
        directory.write_run(_record(options, command, config, steps, corpus, directory))
    written = write_description(directory.path, config, corpus.tokenizer)
    emit(Message(text=_model_line(config)), hooks)
    if written.reason:
        emit(Message(text=f"{written.reason} Only nextok will read this run.", warning=True), hooks)
    for text in warnings_before(corpus, config, options.train, steps):
        emit(Message(text=text, warning=True), hooks)
    state = TrainState(model=model, optimizer=make_optimizer(model, options.train))
    return _train(_Job(directory, options.train, steps, corpus, state), hooks)


def resume(options: RunOptions, *, hooks: Sequence[Hook] = ()) -> RunResult:
    """Goes on with the run at `options.out` from its last whole checkpoint, and returns how it ended.

    With the options it was started with, the result is that of a run never stopped, to the bit on a CPU.

    Raises:
        ConfigError: if an option was changed that the past depends on.
        CheckpointError: if there is no run, or none of its checkpoints is whole.
    """
    directory = RunDirectory.open(options.out)
    record = directory.read_run()
    _check_unchanged(options, saved_options(options.out))
    use_threads(options.train.threads)
    corpus = _corpus_of(record, directory)
    model = build(plain.from_mapping(ModelConfig, record["model"], "model"), options.train.seed)
    model.to(choose_device(options.train.device))
    state = TrainState(model=model, optimizer=make_optimizer(model, options.train))
    snapshot, warnings = load_snapshot(directory)
    state.restore(snapshot)
    del snapshot  # its memory is mapped from the checkpoint
    MetricsLog(directory.metrics).keep_through(state.step)
    steps = _steps(options, model, corpus, hooks) if _length_given(options) else int(record["steps"])
    directory.write_run({**record, "options": plain.to_mapping(options), "steps": steps})
    for text in warnings:
        emit(Message(text=text, warning=True), hooks)
    emit(Message(text=f"Resumed at step {state.step:,} of {steps:,}."), hooks)
    return _train(_Job(directory, options.train, steps, corpus, state), hooks)


def saved_options(path: Path) -> RunOptions:
    """Returns the options a run was started with, its length left open, for `resume`.

    Raises:
        CheckpointError: if there is no run at the path.
    """
    values = RunDirectory.open(path).read_run()["options"]
    saved = run_options({**values, "out": str(path)})
    paused = replace(saved.train, pause_after_steps=0)
    return replace(saved, steps=None, tokens=None, minutes=None, train=paused)


def _train(job: _Job, hooks: Sequence[Hook]) -> RunResult:
    recorder = Recorder(job.run)
    config = job.config
    batches = Batches(job.corpus.train, job.state.model.config.context, config.seed)
    first = micro_batches(batches, 0, config)[0]
    with Interrupts() as interrupts:
        all_hooks: list[Hook] = [recorder, interrupts, *hooks]
        setting = Setting(
            run=job.run,
            config=config,
            steps=job.steps,
            batches=batches,
            validation=job.corpus.validation,
            tokenizer=job.corpus.tokenizer,
            forward=choose_forward(job.state.model, config, first, all_hooks),
        )
        request = train(job.state, setting, all_hooks)
        recorder.plot()
    return _result(job, " and ".join(request.reasons) or None)


def _result(job: _Job, stopped_by: str | None) -> RunResult:
    records = read_metrics(job.run.metrics)
    state = job.state

    def last(name: str) -> Any:
        return next((row[name] for row in reversed(records) if row.get(name) is not None), None)

    return RunResult(
        path=job.run.path,
        step=state.step,
        steps=job.steps,
        tokens=state.step * job.config.batch_size * state.model.config.context,
        seconds=state.seconds,
        train_loss=last("train_loss"),
        val_loss=last("val_loss"),
        val_bits_per_byte=last("val_bits_per_byte"),
        best_val_loss=state.best_loss,
        best_step=state.best_step,
        stopped_by=stopped_by,
    )


def _corpus(options: RunOptions, directory: RunDirectory, cache: Path, on_prepare: OnPrepare | None) -> PreparedCorpus:
    if len(options.sources) == 1 and (Path(options.sources[0]) / MANIFEST_NAME).is_file():
        return open_corpus(Path(options.sources[0]))
    return prepare(
        options.sources,
        tokenizer=options.tokenizer,
        out=directory.corpus,
        config=options.corpus,
        cache=cache,
        on_progress=on_prepare,
    )


def _corpus_of(record: dict[str, Any], directory: RunDirectory) -> PreparedCorpus:
    """Opens the corpus a run was started on, wherever the run directory has been moved to."""
    corpus = open_corpus(directory.path / record["corpus"]["folder"])
    if corpus.fingerprint != record["corpus"]["fingerprint"]:
        raise CheckpointError(
            f"The corpus in {corpus.folder} is not the one this run was started on.", "Restore it, or start a new run."
        )
    return corpus


def _steps(options: RunOptions, model: GPT, corpus: PreparedCorpus, hooks: Sequence[Hook]) -> int:
    config = options.train
    if options.minutes is not None:
        batches = Batches(corpus.train, model.config.context, config.seed)
        measured = calibrate(model, batches, corpus.validation, config)
        steps = measured.steps_in(60 * options.minutes)
        emit(
            Message(
                text=f"{steps:,} steps of {units.format_seconds(measured.step_seconds)} and ten evaluations of "
                f"{units.format_seconds(measured.eval_seconds)} fit into {options.minutes:g} minutes on this machine."
            ),
            hooks,
        )
        return steps
    if options.tokens is not None:
        return max(1, round(units.parse_count(options.tokens) / (config.batch_size * model.config.context)))
    return options.steps or recipe_steps(options.recipe)


def _length_given(options: RunOptions) -> bool:
    return any(length is not None for length in (options.steps, options.tokens, options.minutes))


def _record(
    options: RunOptions,
    command: str,
    config: ModelConfig,
    steps: int,
    corpus: PreparedCorpus,
    directory: RunDirectory,
) -> dict[str, Any]:
    inside = corpus.folder == directory.corpus
    return {
        "nextok": nextok.__version__,
        "command": command,
        "seed": options.train.seed,
        "steps": steps,
        "options": plain.to_mapping(options),
        "model": plain.to_mapping(config),
        "corpus": {
            "folder": directory.corpus.name if inside else str(corpus.folder.absolute()),
            "fingerprint": corpus.fingerprint,
        },
        "tokenizer": {"kind": corpus.tokenizer.kind, "fingerprint": corpus.tokenizer.fingerprint},
        "machine": machine.describe(),
    }


def _check_unchanged(options: RunOptions, saved: RunOptions) -> None:
    now, before = plain.to_mapping(options), plain.to_mapping(saved)
    pairs = [(name, now[name], before[name]) for name in _FIXED]
    pairs += [(name, now["train"][name], before["train"][name]) for name in _FIXED_TRAINING]
    for name, value, old in pairs:
        if value != old:
            raise ConfigError(
                f"A resumed run cannot change {name}, on which what it learned depends (was {old!r}, now {value!r}).",
                "Leave the option out, or start a new run with another --out.",
            )


@contextmanager
def _removed_unless_started(directory: RunDirectory) -> Iterator[None]:
    """Leaves no half-made run behind when something before the first step fails."""
    try:
        yield
    except BaseException:
        shutil.rmtree(directory.corpus, ignore_errors=True)
        files.remove_partials(directory.path)
        if not any(directory.path.iterdir()):
            directory.path.rmdir()
        raise


def _model_line(config: ModelConfig) -> str:
    numbers = count(config)
    return (
        f"{units.format_count(numbers.parameters)} parameters: {config.n_layers} layers, width {config.d_model}, "
        f"{config.n_heads} heads, context {config.context}, vocabulary {config.vocab_size:,}"
    )
