"""What is known before the first step is said before the first step."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nextok import machine
from nextok.corpus import PreparedCorpus, open_corpus
from nextok.errors import TokenizerError
from nextok.spec import ModelConfig
from nextok.train import RunOptions, TrainConfig, run
from nextok.train.preflight import check_run, warnings_before


@pytest.fixture
def corpus(make_options: Callable[..., RunOptions]) -> PreparedCorpus:
    options = make_options(steps=1)
    run(options, cache=options.out)
    return open_corpus(options.out / "corpus")


def model_for(corpus: PreparedCorpus, **values: object) -> ModelConfig:
    sizes = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": 16, "vocab_size": corpus.tokenizer.vocab_size}
    return ModelConfig(**{**sizes, **values})  # type: ignore[arg-type]


def test_sound_run_gets_no_warning(corpus: PreparedCorpus) -> None:
    assert warnings_before(corpus, model_for(corpus), TrainConfig(batch_size=4, warmup_steps=0), steps=10) == []


def test_each_danger_is_named_with_its_numbers_and_a_way_out(corpus: PreparedCorpus) -> None:
    model, config = model_for(corpus), TrainConfig(batch_size=4, warmup_steps=0)
    (many,) = warnings_before(corpus, model, config, steps=2000)
    assert "times without dropout" in many
    assert "--dropout 0.1" in many
    assert warnings_before(corpus, replace(model, dropout=0.1), config, steps=2000) == []
    windows = (len(corpus.train) - 1) // 16
    (few,) = warnings_before(corpus, model, TrainConfig(batch_size=windows + 1, warmup_steps=0), steps=1)
    assert f"make {windows} windows of 16, fewer than the {windows + 1} of one batch" in few


def test_warmup_of_most_of_the_run_is_told(corpus: PreparedCorpus) -> None:
    (long,) = warnings_before(corpus, model_for(corpus), TrainConfig(batch_size=4, warmup_steps=50), steps=60)
    assert "rises for 50 of the 60 steps: use --warmup-steps 6" in long


def test_model_that_does_not_fit_is_told_before_it_is_built(
    corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: 1 << 20)
    large = model_for(corpus, d_model=512)
    (memory,) = warnings_before(corpus, large, TrainConfig(batch_size=4, warmup_steps=0), steps=1)
    assert "1.0 MiB are free" in memory
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: None)
    assert warnings_before(corpus, large, TrainConfig(batch_size=4, warmup_steps=0), steps=1) == []


def test_vocabulary_larger_than_the_embedding_is_refused(corpus: PreparedCorpus) -> None:
    with pytest.raises(TokenizerError):
        check_run(corpus, model_for(corpus, vocab_size=2))
