"""A process of its own: what it answers comes back, and whatever happens in it is one sentence."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from nextok.conversion.engines.child import call
from nextok.errors import NextokError

HERE = "child_functions"


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts functions where the other process finds them."""
    (tmp_path / f"{HERE}.py").write_text(
        "import os, signal, sys, time\n"
        "def double(request):\n    print('noise', flush=True)\n    return [2 * each for each in request]\n"
        "def fails(request):\n    raise ValueError('this and that')\n"
        "def aborts(request):\n    os.kill(os.getpid(), signal.SIGABRT)\n"
        "def sleeps(request):\n    time.sleep(60)\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))


def test_the_answer_comes_back_and_the_noise_does_not(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(f"{HERE}:double", [1, 2.5]) == [2, 5.0]
    assert capfd.readouterr() == ("", "")


def test_an_exception_is_its_last_line() -> None:
    with pytest.raises(NextokError, match=r"\AValueError: this and that\Z"):
        call(f"{HERE}:fails", None)


@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
def test_a_process_that_dies_takes_nobody_along() -> None:
    with pytest.raises(NextokError, match=f"ended by signal {int(signal.SIGABRT)}: "):
        call(f"{HERE}:aborts", None)


def test_one_that_hangs_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(NextokError, match="did not answer within 0.1 seconds"):
        call(f"{HERE}:sleeps", None, timeout_s=0.1)
    assert time.monotonic() - began < 30
