"""Ctrl-C and SIGTERM: the first lets the step finish and saves, the second stops at once.

Where several processes train together a signal can come twice, from the terminal and passed on by what started them; a
repeat within a few seconds is the same one.

A checkpoint is renamed into place only when complete, so a second signal in the middle of a save harms nothing.
"""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Self

from nextok.train.events import Event, Request, StepDone

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REPEAT_S = 5.0


class Interrupts:
    """A hook that turns the first signal into a request to stop; a context manager that installs and removes it.

    Args:
        repeats: Whether a signal may come more than once within seconds without a second one being meant.
    """

    def __init__(self, *, repeats: bool = False) -> None:
        self.received: int | None = None
        self._patience_s = _REPEAT_S if repeats else 0.0
        self._received_at = 0.0
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to no other
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __call__(self, event: Event) -> Request | None:
        """Returns a request to stop after the step in which a signal came."""
        if self.received is None or not isinstance(event, StepDone):
            return None
        return Request(stop=True, reasons=(signal.Signals(self.received).name,))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and time.monotonic() - self._received_at < self._patience_s:
            return
        if self.received is not None and number == signal.SIGTERM:
            raise SystemExit(128 + number)
        if self.received is not None:
            raise KeyboardInterrupt
        self.received, self._received_at = number, time.monotonic()
