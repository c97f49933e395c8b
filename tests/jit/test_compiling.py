"""Where compiled functions are kept, and that another version of the sources is never taken for this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextok.jit import compiling

ROOM = Path(compiling.__file__).parent


def run(source: str, **environment: str) -> str:
    """Runs Python in a process of its own and returns what it prints."""
    shared = {} if "XDG_CACHE_HOME" in environment else {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    env = {**inherited, **shared, **environment}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
from trial import twice
assert twice(21) == 42
print(sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))
"""


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder, the current one, with a module of one compiled function."""
    source = "from nextok.jit import compiled\n\n@compiled()\ndef twice(x):\n    return 2 * x\n"
    (tmp_path / "trial.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_second_process_takes_what_the_first_compiled(trial: Path) -> None:
    home = str(trial / "cache")
    assert [run(TRIAL, XDG_CACHE_HOME=home) for _ in range(2)] == ["0 1", "1 0"]
    kept = compiling.cache_folder(trial).name
    assert [*(trial / "cache" / "nextok" / "kernels" / kept).rglob("trial.twice*.nbi")]


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_where_nothing_can_be_kept_every_process_compiles(trial: Path, variable: str) -> None:
    (trial / "file").touch()  # no folder can be made in a file, even by the superuser
    for _ in range(2):
        assert run(TRIAL, **{variable: str(trial / "file" / "cache")}) == "0 1"
    assert not [*trial.rglob("*.nbi")], "kept beside the source, where no change of a called function would be seen"


def test_a_user_without_a_home_can_still_run(trial: Path) -> None:
    homeless = "from pathlib import Path\ndef home(): raise RuntimeError('no home')\nPath.home = home\n"
    assert run(homeless + TRIAL, XDG_CACHE_HOME="") == "0 1"


def test_the_cache_is_of_these_very_sources_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiling.numba_config, "CACHE_DIR", "")
    folder = compiling.cache_folder(ROOM)
    assert folder.parent == tmp_path / "nextok" / "kernels"
    assert not folder.exists(), "asking makes nothing"
    monkeypatch.setattr(compiling.numba_config, "CACHE_DIR", str(tmp_path / "numba"))
    assert compiling.cache_folder(ROOM) == tmp_path / "numba" / "kernels" / folder.name
    monkeypatch.setattr(Path, "read_bytes", lambda path: path.name.encode())
    assert compiling.cache_folder(ROOM).name != folder.name, "another version of the sources"
