"""A process of its own for an engine: one that aborts, prints or holds on to memory does so there."""

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nextok.errors import NextokError
from nextok.files import read_json, write_json

_START = "import sys; from nextok.conversion.engines.child import serve; serve(*sys.argv[1:])"
_SECONDS = 600.0
_TOLD_CHARACTERS = 300


def call(function: str, request: object, *, timeout_s: float = _SECONDS) -> Any:
    """Returns what `module:function` makes of the request, both plain values.

    Raises:
        NextokError: if the process fails, with the last line that it printed, or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, told = Path(folder) / "request.json", Path(folder) / "answer.json"
        write_json(asked, request)
        command = [sys.executable, "-c", _START, function, str(asked), str(told)]
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise NextokError(f"It did not answer within {timeout_s:g} seconds.") from None
        if done.returncode != 0:
            raise NextokError(_reason(done.returncode, done.stderr.decode("utf-8", "replace")))
        return read_json(told)


def serve(function: str, asked: str, told: str) -> None:
    """Answers one request; what `call` runs in the other process."""
    module, _, name = function.partition(":")
    answer = getattr(importlib.import_module(module), name)(json.loads(Path(asked).read_text(encoding="utf-8")))
    write_json(Path(told), answer)


def _reason(code: int, printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = lines[-1][:_TOLD_CHARACTERS] if lines else "It said nothing."
    return f"It ended by signal {-code}: {said}" if code < 0 else said
