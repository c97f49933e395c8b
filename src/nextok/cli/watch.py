"""What a person sees while text is read and a model learns: a hook that feeds the displays of `nextok.report`."""

import shlex
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console

from nextok import units
from nextok.corpus import PrepareProgress
from nextok.report import TrainingDisplay, WorkProgress, fact_table
from nextok.train import Event, Finding, Logged, Message, RunResult, Sampled, Saved, StepDone

_STAGES = {"scan": "Reading", "tokenizer": "Training the tokenizer", "encode": "Encoding"}
_SAMPLE_LINES = 6  # of a sample shown; the whole of it is in samples.txt


class Watch:
    """Shows every stage of a run on one console: a context manager, a hook, and with `preparing` a callback.

    Args:
        console: Where to show it.
        title: The name of the run.
        past: Metrics of a run that is resumed, for its curve and its best loss.
    """

    def __init__(self, console: Console, title: str, past: Sequence[Mapping[str, object]] = ()) -> None:
        self._console = console
        self._title, self._past = title, past
        self._work: WorkProgress | None = None
        self._stage, self._done = "", 0
        self._training: TrainingDisplay | None = None
        self._steps = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_work(kind)
        if self._training is not None:
            self._training.__exit__(kind, error, trace)

    def preparing(self, progress: PrepareProgress) -> None:
        """Shows how far the reading of the corpus is."""
        if progress.stage != self._stage:
            self._end_work(None)
            self._stage, self._done = progress.stage, 0
            self._work = WorkProgress(self._console, _STAGES[progress.stage], progress.bytes_total).__enter__()
        if self._work is not None:
            self._work.advance(progress.bytes_done - self._done)
            self._done = progress.bytes_done

    def __call__(self, event: Event) -> None:
        """Shows an event of the training run; asks for nothing."""
        display = self._display()
        if isinstance(event, StepDone):
            self._steps = event.steps
        elif isinstance(event, Logged):
            display.update(event.record | ({"steps": self._steps} if self._steps else {}))
        elif isinstance(event, Message):
            display.message(event.text, warning=event.warning)
        elif isinstance(event, Finding):
            display.message(f"{event.text} {event.advice}", warning=True)
        elif isinstance(event, Sampled) and self._console.is_terminal:  # a log has one line a record
            display.sample("\n".join(event.text.splitlines()[:_SAMPLE_LINES]), event.step)
        elif isinstance(event, Saved) and 0 < event.step == self._steps:
            display.message(f"saved {event.folder}")

    def summary(self, result: RunResult) -> None:
        """Prints how the run ended."""
        rows = [
            ("steps, tokens", f"{result.step:,} of {result.steps:,}, {units.format_count(result.tokens)}"),
            ("time", units.format_seconds(result.seconds)),
        ]
        if result.best_val_loss is not None:
            best = f"{result.best_val_loss:.4f} nats per token at step {result.best_step:,}"
            rows.append(("best validation loss", best))
        if result.val_bits_per_byte is not None:
            rows.append(
                ("last validation loss", f"{result.val_loss:.4f}, {result.val_bits_per_byte:.4f} bits per byte")
            )
        self._console.print(fact_table(str(result.path), rows))
        if result.stopped_by:
            go_on = f"nextok train --resume --out {shlex.quote(str(result.path))}"
            self._console.print(f"Stopped by {result.stopped_by}. Go on with: {go_on}", soft_wrap=True)

    def _display(self) -> TrainingDisplay:
        self._end_work(None)
        if self._training is None:
            self._training = TrainingDisplay(self._console, self._title, past=self._past).__enter__()
        return self._training

    def _end_work(self, kind: type[BaseException] | None) -> None:
        if self._work is not None:
            self._work.__exit__(kind, None, None)
            self._work = None
