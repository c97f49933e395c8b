"""Hooks that write what a run tells into its directory: metrics, findings, samples, the plot of the losses."""

import time
from dataclasses import asdict

from nextok.checkpoint import MetricsLog, RunDirectory, append_samples, read_metrics
from nextok.report.plots import plot_training
from nextok.train.events import Event, Finding, Logged, Sampled, Saved

_PLOT_EVERY_S = 30.0  # drawing takes about half a second


class Recorder:
    """Appends metrics, findings and samples as they come, and redraws the plot with checkpoints, not too often."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._log = MetricsLog(run.metrics)
        self._findings = MetricsLog(run.findings)
        self._plotted_at = time.perf_counter()

    def __call__(self, event: Event) -> None:
        """Writes what the event holds; asks for nothing."""
        if isinstance(event, Logged):
            self._log.append(event.record)
        elif isinstance(event, Finding):
            self._findings.append(asdict(event))
        elif isinstance(event, Sampled):
            append_samples(self._run.samples, event.step, event.text)
        elif isinstance(event, Saved) and time.perf_counter() - self._plotted_at > _PLOT_EVERY_S:
            self.plot()

    def plot(self) -> None:
        """Draws the losses so far into plots/loss.png."""
        self._plotted_at = time.perf_counter()
        records = read_metrics(self._run.metrics)
        if records:
            plot_training(records, self._run.plots / "loss.png", title=self._run.path.name)
