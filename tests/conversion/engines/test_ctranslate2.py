"""CTranslate2: every rule is one that a model of its kind was seen to follow."""

from dataclasses import replace

import pytest

from nextok.conversion.engines import check_engine, findings
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer

from .conftest import ALIEN, CONFIGS, LLAMA, SIZE, TOKENIZERS, Folder

GPT2 = replace(CONFIGS["gpt2"], vocab_size=257)
ODD = {
    "squared ReLU": (replace(GPT2, mlp="relu2"), "will not load", "squared ReLU"),
    "eps": (replace(GPT2, norm_eps=1e-2), "loads but differs", "eps = 1e-05; this model has 0.01"),
    "head width": (ModelConfig(**SIZE, **LLAMA, d_head=16), "loads but differs", "has d_head = 16"),
    "padded": (replace(GPT2, vocab_size=320), "will not load", "320 embedding rows for 257 tokens"),
    "no family": (ALIEN, "will not load", "norm_placement"),
}
FINE = {
    **{family: replace(config, vocab_size=257) for family, config in CONFIGS.items()},
    "erf GELU": replace(GPT2, mlp="gelu"),
    "ReLU": replace(GPT2, mlp="relu"),
    "narrow feed-forward": replace(GPT2, d_ff=100),
    "odd heads": ModelConfig(**(SIZE | {"d_model": 60, "n_heads": 4, "vocab_size": 257})),
    "biased llama": ModelConfig(**(SIZE | LLAMA | {"bias": True})),
    "padded qwen3": replace(CONFIGS["qwen3"], vocab_size=320),
}


@pytest.mark.parametrize(("config", "verdict", "told"), ODD.values(), ids=ODD)
def test_what_it_does_otherwise(config: ModelConfig, verdict: str, told: str) -> None:
    [found] = findings("ctranslate2", config, byte_tokenizer())
    assert found.verdict == verdict
    assert told in found.sentence


def test_it_needs_a_tokenizer_with_an_end_of_text() -> None:
    [found] = findings("ctranslate2", GPT2, None)
    assert (found.verdict, "needs the tokenizer" in found.sentence) == ("will not load", True)
    found, _ = findings("ctranslate2", GPT2, TOKENIZERS["char without end"]())
    assert (found.verdict, "has no end of text" in found.sentence) == ("will not load", True)


@pytest.mark.parametrize("config", FINE.values(), ids=FINE)
def test_everything_else_works(config: ModelConfig) -> None:
    [found] = findings("ctranslate2", config, byte_tokenizer())
    assert found.verdict == "works"


@pytest.mark.slow
@pytest.mark.parametrize("config", FINE.values(), ids=FINE)
def test_it_writes_what_nextok_writes(config: ModelConfig, folder_of: Folder) -> None:
    pytest.importorskip("ctranslate2")
    report = check_engine("ctranslate2", folder_of(config))
    assert report.trial is not None
    assert report.trial.problem == ""
    assert report.trial.max_logprob_difference < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_it_reads_every_tokenizer_with_an_end(kind: str, folder_of: Folder) -> None:
    pytest.importorskip("ctranslate2")
    report = check_engine("ctranslate2", folder_of(GPT2, kind))
    assert report.trial is not None
    assert report.trial.problem == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eps", "head width"])
def test_what_is_said_to_differ_does(name: str, folder_of: Folder) -> None:
    pytest.importorskip("ctranslate2")
    report = check_engine("ctranslate2", folder_of(ODD[name][0]))
    assert report.trial is not None
    assert "differ from nextok's" in report.trial.problem
