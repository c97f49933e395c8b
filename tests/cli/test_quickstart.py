"""`nextok quickstart`: the whole way in seconds instead of minutes."""

from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory
from nextok.cli.quickstart import Arguments, quickstart_options
from nextok.spec import ModelConfig, count

from .conftest import Nextok


def test_default_is_a_model_that_two_minutes_can_train() -> None:
    options = quickstart_options(Arguments())
    assert options.sources == ("python-stdlib",)
    assert options.minutes == 2.0
    assert 5e5 < count(ModelConfig.of(options.model, 2048)).parameters < 5e6


def test_next_quickstart_takes_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert quickstart_options(Arguments()).out == Path("runs/quickstart")
    Path("runs/quickstart").mkdir(parents=True)
    Path("runs/quickstart-2").mkdir()
    assert quickstart_options(Arguments()).out == Path("runs/quickstart-3")


def test_quickstart_ends_with_a_sample_and_commands_to_try(nextok: Nextok) -> None:
    code, out, err = nextok("quickstart", "--minutes", "0.1", "--out", "runs/q")
    assert code == 0, err
    assert "It continues 'def main(':" in out
    assert "nextok generate runs/q --prompt" in out
    assert RunDirectory(Path("runs/q")).plots.joinpath("loss.png").is_file()
    again, _, err = nextok("quickstart", "--minutes", "0.1", "--out", "runs/q")
    assert again == 2
    assert "already holds a run" in err
