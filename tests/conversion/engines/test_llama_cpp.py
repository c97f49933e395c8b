"""llama.cpp: what a GGUF file can say, and that llama.cpp computes what it says."""

from dataclasses import replace
from pathlib import Path

import pytest

from nextok.conversion import export_model
from nextok.conversion.engines import check_engine, findings
from nextok.tokenizer import TextRules, byte_tokenizer

from .conftest import ALIEN, CONFIGS, TOKENIZERS, Folder


def test_rules() -> None:
    for config in CONFIGS.values():
        assert [found.verdict for found in findings("llama.cpp", config, byte_tokenizer())] == ["works"]
    for config, tokenizer, told in (
        (ALIEN, byte_tokenizer(), "norm_placement"),
        (replace(CONFIGS["gpt2"], mlp="gelu"), byte_tokenizer(), "mlp = 'gelu'"),
        (CONFIGS["gpt2"], None, "cannot do without a tokenizer"),
    ):
        [found] = findings("llama.cpp", config, tokenizer)
        assert found.verdict == "will not load"
        assert told in found.sentence


def test_rules_for_text_are_told() -> None:
    works, note = findings("llama.cpp", CONFIGS["gpt2"], byte_tokenizer(rules=TextRules(newlines="lf")))
    assert (works.verdict, note.verdict) == ("works", "works")
    assert "newlines = lf" in note.sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("family", CONFIGS)
def test_it_writes_what_nextok_writes(family: str, kind: str, folder_of: Folder) -> None:
    pytest.importorskip("xllamacpp")
    report = check_engine("llama.cpp", folder_of(CONFIGS[family], kind))
    assert report.trial is not None
    assert report.trial.problem == ""


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("family", CONFIGS)
def test_it_rounds_as_the_file_does(family: str, precision: str, folder_of: Folder, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    export_model(folder_of(CONFIGS[family]), tmp_path / "model.gguf", to="gguf", precision=precision)
    report = check_engine("llama.cpp", tmp_path / "model.gguf", precision=precision)
    assert report.trial is not None
    assert report.trial.problem == ""


@pytest.mark.slow
def test_a_feed_forward_width_other_than_four_is_no_obstacle(folder_of: Folder) -> None:
    pytest.importorskip("xllamacpp")
    report = check_engine("llama.cpp", folder_of(replace(CONFIGS["gpt2"], d_ff=96)))
    assert report.trial is not None
    assert report.trial.problem == ""
