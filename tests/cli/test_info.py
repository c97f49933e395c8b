"""`nextok info`: exact counts of presets and of what lies in files."""

import json
from pathlib import Path

import pytest

from .conftest import Nextok


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("lesson-a", 107_008),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_presets_are_counted_exactly(nextok: Nextok, preset: str, parameters: int) -> None:
    code, out, _ = nextok("info", preset, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["parameters"] == parameters == sum(report["parameters_by_part"].values())


def test_table_shows_counts_flops_and_memory(nextok: Nextok) -> None:
    code, out, _ = nextok("info", "lesson-a")
    assert code == 0
    for shown in ("107,008", "61.8%", "621.3 kFLOP", "642.0 kFLOP", "418.0 KiB"):
        assert shown in out


def test_recipe_and_vocabulary_change_a_preset(nextok: Nextok) -> None:
    report = json.loads(nextok("info", "nano", "--recipe", "modern", "--vocab-size", "1000", "--json")[1])
    assert (report["config"]["mlp"], report["config"]["vocab_size"]) == ("swiglu", 1000)


def test_run_directory_is_counted_in_its_file_and_tells_its_origin(nextok: Nextok, trained: Path) -> None:
    report = json.loads(nextok("info", str(trained), "--json")[1])
    assert report["parameters_in_file"] == report["parameters"]
    assert report["run"]["command"].startswith("nextok train")
    code, out, _ = nextok("info", str(trained))
    assert code == 0
    assert "as counted" in out


def test_what_changes_a_preset_is_refused_for_a_folder(nextok: Nextok, trained: Path) -> None:
    for flags in (["--recipe", "modern"], ["--vocab-size", "1000"]):
        code, _, err = nextok("info", str(trained), *flags)
        assert code == 2
        assert "chosen for a preset" in err


def test_unknown_model_is_refused(nextok: Nextok) -> None:
    code, _, err = nextok("info", "gpt5")
    assert code == 2
    assert "gpt5" in err
