"""The command line as a person uses it: in a fresh folder, with what comes out and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nextok.cli.main import main

TINY = [
    "--n-layers=1",
    "--d-model=16",
    "--n-heads=2",
    "--context=16",
    "--batch-size=4",
    "--sample-tokens=0",
    "--threads=1",
]

Nextok = Callable[..., tuple[int, str, str]]


@pytest.fixture
def nextok(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nextok:
    """Runs a command in this process, in a fresh folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as stop:  # tyro ends the process itself for --help and wrong flags
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of a tiny model of a hundred repeated words, with a character vocabulary."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text("abc def ghi jkl. " * 200, encoding="utf-8")
    places = [str(folder / "text.txt"), "--out", str(folder / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "nextok", "train", *places, "--recipe=classic", "--tokenizer=char", "--steps=60", *TINY],
        capture_output=True, text=True, env=os.environ.copy(), check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "run"
