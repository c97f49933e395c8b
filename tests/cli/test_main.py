"""Finding the verb, starting fast, and ending with one sentence and the right code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextok.cli.main import VERBS

from .conftest import Nextok


def in_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["nonsense"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, nextok.cli.main as m\n"
        f"m.main({arguments!r})\n"
        "heavy = {'torch', 'numba', 'numpy', 'matplotlib', 'rich', 'tyro', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = in_process(code)
    assert done.returncode == 0, done.stderr


def test_help_names_every_verb_and_every_verb_has_help(nextok: Nextok) -> None:
    code, out, _ = nextok("--help")
    assert code == 0
    assert all(verb in out for verb in VERBS)
    for verb in VERBS:
        code, out, _ = nextok(verb, "--help")
        assert code == 0
        assert f"usage: nextok {verb}" in out


def test_unknown_verb_names_the_nearest_and_ends_with_2(nextok: Nextok) -> None:
    code, _, err = nextok("trian", "x.txt")
    assert code == 2
    assert "There is no command 'trian'. Did you mean 'train'?" in err


def test_user_mistake_is_one_sentence_without_a_traceback(nextok: Nextok) -> None:
    code, out, err = nextok("train", "absent.txt", "--out", "run")
    assert code == 2
    assert err.startswith("nextok: ")
    assert "absent.txt" in err
    assert "Traceback" not in err + out
    assert len(err.strip().splitlines()) == 1
    assert not Path("run").exists()


def test_debug_shows_where_an_error_came_from(nextok: Nextok) -> None:
    from nextok.errors import CorpusError

    with pytest.raises(CorpusError):
        nextok("train", "absent.txt", "--out", "run", "--debug")


def test_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nextok", "--version"], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stdout.startswith("nextok 0.")


def test_console_that_cannot_show_a_character_ends_nothing(tmp_path: Path, trained: Path) -> None:
    """A strict ASCII console under a C locale, and text that it cannot show."""
    done = subprocess.run(
        [sys.executable, "-m", "nextok", "generate", str(trained), "--prompt", "abc", "--max-new-tokens", "3"],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code = "import sys; from nextok.cli import main as m; m._set_streams(); print('\\u203b')"
    shown = in_process(code, PYTHONIOENCODING="ascii:strict")
    assert (shown.returncode, shown.stdout) == (0, "?\n")


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "utf-8:strict"}])
def test_standard_input_is_utf8_whatever_the_locale(locale: dict[str, str]) -> None:
    code = "import sys; from nextok.cli import main as m; m._set_streams(); print(ascii(sys.stdin.read()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=b"\xc3\xa9 \xff",
        capture_output=True,
        env={**os.environ, **locale},
        check=True,
    )
    assert done.stdout.decode().strip() == r"'\xe9 \udcff'"


def test_reader_that_leaves_is_no_error(trained: Path) -> None:
    command = f'"{sys.executable}" -m nextok info "{trained}" --json | head -c 1'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_changes_no_signal_handler_and_json_is_strict(nextok: Nextok) -> None:
    code, out, _ = nextok("info", "lesson-a", "--json")
    assert code == 0
    assert json.loads(out)["parameters"] == 107_008
