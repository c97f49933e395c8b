"""Signals: the first asks for a stop after the step, the second stops at once, and handlers come back."""

import os
import signal
import threading

import pytest

from nextok.train import Message, StepDone
from nextok.train.interrupt import Interrupts

STEP = StepDone(step=1, steps=2, train_loss=1.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_asks_to_stop_after_the_step(number: int) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert interrupts(STEP) is None
        os.kill(os.getpid(), number)
        assert interrupts(Message(text="not a step")) is None
        request = interrupts(STEP)
        assert request is not None
        assert (request.stop, request.reasons) == (True, (signal.Signals(number).name,))
    assert signal.getsignal(number) == before


def test_second_signal_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_second_sigterm_ends_with_its_own_code() -> None:
    with pytest.raises(SystemExit) as stop, Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.value.code == 143


def test_other_threads_leave_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def enter() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_signal_passed_on_a_second_time_within_seconds_is_the_same_one() -> None:
    with Interrupts(repeats=True) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts(STEP) is not None
        interrupts._received_at -= 10  # seconds later
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
