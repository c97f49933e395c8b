"""A training run from sources to a run directory: what `nextok train` calls.

Everything that can fail for a reason the user can mend is checked before the first step: options, corpus, lengths,
vocabulary, the folder. `run.json` is written once the run is sure to start; from then on `resume` can go on with it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import nextok
from nextok import config as plain
from nextok import machine, units
from nextok.checkpoint import RunDirectory, read_metrics
from nextok.corpus import MANIFEST_NAME, Batches, PreparedCorpus, PrepareProgress, open_corpus, prepare
from nextok.errors import CorpusError, NonFiniteError, TokenizerError
from nextok.interop import write_description
from nextok.model import GPT, build
from nextok.spec import ModelConfig, count
from nextok.tokenizer import parse_choice
from nextok.train.average import Average
from nextok.train.calibrate import Length, calibrate
from nextok.train.config import RunOptions, TrainConfig, recipe_steps
from nextok.train.device import choose_device, use_threads
from nextok.train.doctor import Doctor, ended_by
from nextok.train.events import Hook, Message, emit
from nextok.train.gradients import Gradients, distribute
from nextok.train.interrupt import Interrupts
from nextok.train.loop import Setting, train
from nextok.train.lora import add_lora, trained_parameters
from nextok.train.objective import choose_objective, get_ready, resolve_precision
from nextok.train.optim import Optimizer
from nextok.train.preflight import check_run, warnings_before
from nextok.train.processes import ALONE, Processes
from nextok.train.recorders import Recorder
from nextok.train.source import Source, open_source, take_weights, write_base
from nextok.train.state import TrainState
from nextok.train.step import micro_batches
from nextok.train.symptoms import Case
from nextok.train.trackers import Trackers, check_trackers

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
    starts_from_model: bool = False
    """Whether its first weights were not drawn, but come from a model."""
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
    """Trains a new model, or one that exists further, into `options.out` and returns how it ended.

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
    check_trackers(options.train.track)
    use_threads(options.train.threads, processes.local_world)
    hooks = hooks if processes.leads else ()
    source = None if options.init_from is None else open_source(options, cache)
    directory = RunDirectory.create(options.out) if processes.leads else RunDirectory(options.out)
    with _removed_unless_started(directory) if processes.leads else nullcontext():
        options, corpus = _corpus(options, directory, cache, on_prepare, source, processes)
        for text in _about_corpus(options, corpus, directory):
            emit(Message(text=text), hooks)
        config = ModelConfig.of(options.model, corpus.tokenizer.vocab_size) if source is None else source.config
        check_run(corpus, config)
        options = settled(options, config, device, hooks, processes)
        emit(Message(text=_model_line(config)), hooks)
        model, origin = _first_model(config, options, directory, source, processes)
        frozen = sum(parameter.numel() for parameter in model.parameters()) - trained_parameters(model)
        if frozen:
            emit(Message(text=_adapter_line(model, frozen, options)), hooks)
        model = model.to(device)
        length = length_of(options, model, corpus, hooks, processes)
        options = replace(options, train=replace(options.train, eval_every_steps=length.eval_every_steps))
        if processes.leads:
            written = write_description(directory.path, config, corpus.tokenizer)
            directory.write_run(_record(options, command, config, length.steps, corpus, directory) | origin)
            if written.reason:
                emit(Message(text=f"{written.reason} Only nextok will read this run.", warning=True), hooks)
    for text in warnings_before(corpus, config, options.train, length.steps, frozen=frozen):
        emit(Message(text=text, warning=True), hooks)
    gradients = distribute(model, options.train, processes)
    state = new_state(model, options.train)
    return train_job(Job(directory, options.train, length.steps, corpus, state, source is not None, gradients), hooks)


def settled(
    options: RunOptions, model: ModelConfig, device: torch.device, hooks: Sequence[Hook], processes: Processes = ALONE
) -> RunOptions:
    """Returns the options with `auto` settled, the same for all processes, so that a resumed run computes as before.

    What that precision needs is compiled here, before anything is measured.
    """
    cut = options.train.parallel == "fsdp" and processes.store is not None
    precision = processes.from_leader(resolve_precision(options.train, model, device, cut=cut))
    options = replace(options, train=replace(options.train, precision=precision))
    if processes.leads:
        get_ready(model, options.train, device, hooks, cut=cut)
    processes.from_leader("ready")
    return options


def new_state(model: GPT, config: TrainConfig) -> TrainState:
    """Returns the state before the first step."""
    average = Average(model, config.ema) if config.ema else None
    return TrainState(model=model, optimizer=Optimizer(model, config), average=average)


def train_job(job: Job, hooks: Sequence[Hook]) -> RunResult:
    """Trains to the end or to the first request to stop, with records kept and signals heard."""
    processes = job.gradients.processes
    config = job.config
    case = Case.of(config, job.state.model.config, job.steps)
    batches = Batches(job.corpus.train, job.state.model.config.context, config.seed)
    first = micro_batches(batches, 0, config, processes)[0]
    with Interrupts(repeats=processes.store is not None) as interrupts, ExitStack() as stack:
        watching: list[Hook] = []
        recorder = Recorder(job.run) if processes.leads else None
        if recorder is not None:
            stack.callback(recorder.plot)
            doctor = Doctor(case, past=read_metrics(job.run.metrics), told=read_metrics(job.run.findings))
            trackers = stack.enter_context(Trackers(config.track, job.run, job.state.step))
            watching = [recorder, doctor, trackers]
        all_hooks: list[Hook] = [*watching, interrupts, *hooks]
        setting = Setting(
            run=job.run,
            config=config,
            steps=job.steps,
            batches=batches,
            validation=job.corpus.validation,
            tokenizer=job.corpus.tokenizer,
            objective=choose_objective(job.state.model, config, first, all_hooks),
            starts_from_model=job.starts_from_model,
            gradients=job.gradients,
        )
        try:
            request = train(job.state, setting, all_hooks)
        except NonFiniteError as error:
            if recorder is not None:
                recorder(ended_by(error, job.state.step + 1, case))
            raise
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
    source: Source | None,
    processes: Processes,
) -> tuple[RunOptions, PreparedCorpus]:
    """Returns the corpus, and the options with the tokenizer and the reading that really made it."""
    if len(options.sources) == 1 and (Path(options.sources[0]) / MANIFEST_NAME).is_file():
        corpus = open_corpus(Path(options.sources[0]))
        if source is not None and corpus.tokenizer.fingerprint != source.tokenizer.fingerprint:
            raise TokenizerError(
                f"The prepared corpus {corpus.folder} has another tokenizer than {options.init_from}.",
                "Name the text itself, or prepare it with the tokenizer of the model.",
            )
        return replace(options, tokenizer=corpus.manifest.tokenizer, corpus=corpus.manifest.config), corpus
    if not processes.leads:
        processes.wait_for("corpus")
        return options, open_corpus(directory.corpus)
    corpus = prepare(
        options.sources,
        tokenizer=options.tokenizer if source is None else source.tokenizer,
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
    asked = None if options.init_from else parse_choice(options.tokenizer).vocab_size
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


def _first_model(
    config: ModelConfig, options: RunOptions, directory: RunDirectory, source: Source | None, processes: Processes
) -> tuple[GPT, dict[str, Any]]:
    """Returns the model before its first step, and what run.json says of where it comes from."""
    if source is None:
        return build(config, options.train.seed), {}
    model, fingerprint = take_weights(source)
    about = {"path": str(options.init_from), "weights": fingerprint, "tokenizer": source.tokenizer.fingerprint}
    if options.adapters is not None:
        if processes.leads:
            about["base"] = write_base(directory.path, model)
        add_lora(model, options.adapters, options.train.seed)
    return model, {"init_from": about}


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


def _adapter_line(model: GPT, frozen: int, options: RunOptions) -> str:
    trained = trained_parameters(model)
    share = 100 * trained / (trained + frozen)
    return (
        f"Adapters of rank {options.lora}: {trained:,} parameters are trained ({share:.2g} % of all), "
        f"{frozen:,} stay as they are."
    )
