"""transformers: what it is told to have, and that it computes it."""

import pytest

from nextok.conversion.engines import check_engine, findings
from nextok.tokenizer import byte_tokenizer

from .conftest import ALIEN, CONFIGS, TOKENIZERS, Folder


def test_rules() -> None:
    for family, config in CONFIGS.items():
        [found] = findings("transformers", config, byte_tokenizer())
        assert (found.verdict, found.sentence) == ("works", f"The model is exactly the {family} of transformers.")
    [found] = findings("transformers", ALIEN, byte_tokenizer())
    assert found.verdict == "will not load"
    assert "norm_placement = 'after'" in found.sentence
    assert "give token ids" in findings("transformers", CONFIGS["gpt2"], None)[1].sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("family", CONFIGS)
def test_it_writes_what_nextok_writes(family: str, kind: str, folder_of: Folder) -> None:
    pytest.importorskip("transformers")
    report = check_engine("transformers", folder_of(CONFIGS[family], kind))
    assert report.trial is not None
    assert report.trial.problem == ""
    assert report.trial.max_logprob_difference < 1e-4
