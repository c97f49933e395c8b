"""A training run from sources to a run directory: what `nextok train` calls.

Everything that can fail for a reason the user can mend is checked before the first step: options, corpus, lengths,
vocabulary, the folder. `run.json` is written once the run is sure to start; from then on `resume` can go on with it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import nextok
from nextok import config as plain
from nextok import machine, units
from nextok.checkpoint import RunDirectory, read_metrics
from nextok.corpus import MANIFEST_NAME, Batches, PreparedCorpus, PrepareProgress, open_corpus, prepare
from nextok.errors import CorpusError
from nextok.interop import write_description
from nextok.model import GPT, build
from nextok.spec import ModelConfig, count
from nextok.tokenizer import parse_choice
from nextok.train.calibrate import Length, calibrate
from nextok.train.config import RunOptions, TrainConfig, recipe_steps
from nextok.train.device import choose_device, choose_forward, use_threads
from nextok.train.events import Hook, Message, emit
from nextok.train.gradients import Gradients, distribute
from nextok.train.interrupt import Interrupts
from nextok.train.loop import Setting, train
from nextok.train.optim import make_optimizer
from nextok.train.preflight import check_run, warnings_before
from nextok.train.processes import ALONE, Processes
from nextok.train.recorders import Recorder
from nextok.train.state import TrainState
from nextok.train.step import micro_batches

OnPrepare = Callable[[PrepareProgress], None]


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
class Job:
    """A run that is ready to be trained, or trained further."""

    run: RunDirectory
    config: TrainConfig
    steps: int
    corpus: PreparedCorpus
    state: TrainState
    gradients: Gradients = Gradients()
    """How those of several processes add up."""


def run(
    options: RunOptions,
    *,
    cache: Path,
    command: str = "",
    hooks: Sequence[Hook] = (),
    on_prepare: OnPrepare | None = None,
    processes: Processes = ALONE,
) -> RunResult:
    """Trains a new model into `options.out` and returns how it ended.

    Args:
        options: What the run is a function of.
        cache: Folder for downloads that a named corpus or tokenizer needs.
        command: What the user typed, to keep with the run.
        hooks: Get every event, in the leading process; see `nextok.train.events`.
        on_prepare: Gets the progress of reading and tokenising the corpus.
        processes: Those that train together, from `joined`; all call this with the same options.

    Raises:
        NextokError: in one of its kinds; before the first step unless a number or the disk fails.
    """
    if not options.sources:
        raise CorpusError("Nothing to train on was named.", "Name files, folders, or python-stdlib.")
    processes.check_batch(options.train.batch_size)
    device = processes.connect(choose_device(options.train.device))
    use_threads(options.train.threads, processes.local_world)
    hooks = hooks if processes.leads else ()
    directory = RunDirectory.create(options.out) if processes.leads else RunDirectory(options.out)
    with _removed_unless_started(directory) if processes.leads else nullcontext():
        options, corpus = _corpus(options, directory, cache, on_prepare, processes)
        for text in _about_corpus(options, corpus, directory):
            emit(Message(text=text), hooks)
        config = ModelConfig.of(options.model, corpus.tokenizer.vocab_size)
        check_run(corpus, config)
        emit(Message(text=_model_line(config)), hooks)
        model = build(config, options.train.seed).to(device)
        length = length_of(options, model, corpus, hooks, processes)
        options = replace(options, train=replace(options.train, eval_every_steps=length.eval_every_steps))
        if processes.leads:
            written = write_description(directory.path, config, corpus.tokenizer)
            directory.write_run(_record(options, command, config, length.steps, corpus, directory))
            if written.reason:
                emit(Message(text=f"{written.reason} Only nextok will read this run.", warning=True), hooks)
    for text in warnings_before(corpus, config, options.train, length.steps):
        emit(Message(text=text, warning=True), hooks)
    gradients = distribute(model, options.train, processes)
    state = TrainState(model=model, optimizer=make_optimizer(model, options.train))
    return train_job(Job(directory, options.train, length.steps, corpus, state, gradients), hooks)


def train_job(job: Job, hooks: Sequence[Hook]) -> RunResult:
    """Trains to the end or to the first request to stop, with records kept and signals heard."""
    processes = job.gradients.processes
    recorders = [Recorder(job.run)] if processes.leads else []
    config = job.config
    batches = Batches(job.corpus.train, job.state.model.config.context, config.seed)
    first = micro_batches(batches, 0, config, processes)[0]
    with Interrupts(repeats=processes.store is not None) as interrupts:
        all_hooks: list[Hook] = [*recorders, interrupts, *hooks]
        setting = Setting(
            run=job.run,
            config=config,
            steps=job.steps,
            batches=batches,
            validation=job.corpus.validation,
            tokenizer=job.corpus.tokenizer,
            forward=choose_forward(job.state.model, config, first, all_hooks),
            gradients=job.gradients,
        )
        try:
            request = train(job.state, setting, all_hooks)
        finally:
            for recorder in recorders:
                recorder.plot()
    return _result(job, " and ".join(request.reasons) or None)


def _result(job: Job, stopped_by: str | None) -> RunResult:
    records = read_metrics(job.run.metrics) if job.gradients.processes.leads else []
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


def _corpus(
    options: RunOptions,
    directory: RunDirectory,
    cache: Path,
    on_prepare: OnPrepare | None,
    processes: Processes,
) -> tuple[RunOptions, PreparedCorpus]:
    """Returns the corpus, and the options with the tokenizer and the reading that really made it."""
    if len(options.sources) == 1 and (Path(options.sources[0]) / MANIFEST_NAME).is_file():
        corpus = open_corpus(Path(options.sources[0]))
        return replace(options, tokenizer=corpus.manifest.tokenizer, corpus=corpus.manifest.config), corpus
    if not processes.leads:
        processes.wait_for("corpus")
        return options, open_corpus(directory.corpus)
    corpus = prepare(
        options.sources,
        tokenizer=options.tokenizer,
        out=directory.corpus,
        config=options.corpus,
        cache=cache,
        on_progress=on_prepare,
    )
    processes.announce("corpus")
    return options, corpus


def _about_corpus(options: RunOptions, corpus: PreparedCorpus, directory: RunDirectory) -> list[str]:
    """Says what the user may not expect of the corpus."""
    if corpus.folder != directory.corpus:
        return [f"Using the prepared corpus {corpus.folder} with its own tokenizer, {options.tokenizer}."]
    asked = parse_choice(options.tokenizer).vocab_size
    if asked and corpus.tokenizer.vocab_size < asked:
        return [f"The text has pairs for a vocabulary of {corpus.tokenizer.vocab_size:,}, not for {asked:,}."]
    return []


def corpus_identity(corpus: PreparedCorpus) -> dict[str, Any]:
    """Returns what tells whether token numbers and window positions mean the same."""
    return {
        "fingerprint": corpus.fingerprint,
        "tokenizer": corpus.tokenizer.fingerprint,
        "train_tokens": len(corpus.train),
        "validation_tokens": 0 if corpus.validation is None else len(corpus.validation),
    }


def length_of(
    options: RunOptions, model: GPT, corpus: PreparedCorpus, hooks: Sequence[Hook], processes: Processes = ALONE
) -> Length:
    """Returns the length that the options say; minutes are measured on this machine."""
    config = options.train
    if options.minutes is None:
        if options.tokens is not None:
            wanted = units.parse_count(str(options.tokens))
            return Length(
                steps=max(1, round(wanted / (config.batch_size * model.config.context))),
                eval_every_steps=config.eval_every_steps,
            )
        return Length(steps=options.steps or recipe_steps(options.recipe), eval_every_steps=config.eval_every_steps)
    emit(Message(text="Measuring this machine for a few seconds."), hooks)
    budget_s = 60 * options.minutes
    batches = Batches(corpus.train, model.config.context, config.seed)
    measured = calibrate(model, batches, corpus.validation, config, budget_s, processes)
    length = Length(**processes.from_leader(asdict(measured.length_of(budget_s, config.eval_every_steps))))
    step_ms = 1000 * measured.step_seconds
    emit(Message(text=f"{length.steps:,} steps of {step_ms:.0f} ms fit into {options.minutes:g} minutes here."), hooks)
    if measured.eval_seconds > budget_s / 4:
        slow = f"One evaluation takes {units.format_seconds(measured.eval_seconds)} of them"
        emit(Message(text=f"{slow}: a smaller --val-fraction leaves more for training.", warning=True), hooks)
    return length


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
            **corpus_identity(corpus),
        },
        "machine": machine.describe(),
    }


@contextmanager
def _removed_unless_started(directory: RunDirectory) -> Iterator[None]:
    """Leaves nothing behind when something before the first step fails; the folder was empty, or not there."""
    try:
        yield
    except BaseException:
        shutil.rmtree(directory.path, ignore_errors=True)
        raise


def _model_line(config: ModelConfig) -> str:
    numbers = count(config)
    return (
        f"{units.format_count(numbers.parameters)} parameters: {config.n_layers} layers, width {config.d_model}, "
        f"{config.n_heads} heads, context {config.context}, vocabulary {config.vocab_size:,}"
    )
