"""The engine's own room: one thread, except where a test asks for more."""

import numba
import pytest


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine threads wait for each other longer than these tiny models take."""
    monkeypatch.setattr("nextok.machine.usable_cores", lambda: 1)
    numba.set_num_threads(1)
