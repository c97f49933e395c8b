"""What a person sees of a conversion: how far it is, what was written, and the proof that it computes the same."""

from types import TracebackType
from typing import Self

from rich.console import Console

from nextok import units
from nextok.conversion import Conversion, ConvertProgress
from nextok.report import WorkProgress, fact_table

_STAGES = {"read": "Reading the model", "write": "Writing", "compare": "Reading it back"}
_FORMATS = {"hf": "directory of transformers", "gguf": "GGUF"}


class ConversionWatch:
    """Shows every stage of a conversion on one console: a context manager, and a callback for its progress.

    Args:
        console: Where to show it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._work: WorkProgress | None = None
        self._stage, self._done = "", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kind)

    def __call__(self, progress: ConvertProgress) -> None:
        """Shows how far the conversion is."""
        if progress.stage != self._stage:
            self._end(None)
            self._stage, self._done = progress.stage, 0
            shown = WorkProgress(self._console, _STAGES[progress.stage], progress.weights_total, unit="weights")
            self._work = shown.__enter__()
        if self._work is not None:
            self._work.advance(progress.weights_done - self._done)
            self._done = progress.weights_done

    def _end(self, kind: type[BaseException] | None) -> None:
        if self._work is not None:
            self._work.__exit__(kind, None, None)
            self._work = None


def show_conversion(conversion: Conversion, console: Console) -> None:
    """Prints what was written, and how far its logits are from those of the source."""
    compared = conversion.comparison
    only = "nextok alone reads it" if conversion.family == "nextok" else conversion.family
    rows = [
        ("from", str(conversion.source)),
        ("format, family", f"{_FORMATS[conversion.format]}, {only}"),
        ("parameters", f"{conversion.parameters:,}"),
        ("size, precision", f"{units.format_bytes(conversion.bytes)}, {conversion.precision}"),
        (f"logits at {compared.tokens} positions", f"differ by at most {compared.max_logit_difference:.2g}"),
        ("same most likely token", f"{compared.argmax_agreement:.1%}"),
    ]
    if conversion.precision != "f32":
        rows.append(("mean KL divergence", f"{compared.mean_kl_nats:.2g} nats per token"))
    console.print(fact_table(str(conversion.path), rows))
    for note in conversion.notes:
        console.print(note, soft_wrap=True)
