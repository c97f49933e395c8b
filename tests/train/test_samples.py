"""Samples during training: repeatable, harmless to what is learned."""

import torch

from nextok.model import build
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer, char_tokenizer
from nextok.train.config import TrainConfig
from nextok.train.samples import write_sample

CONFIG = ModelConfig(n_layers=1, d_model=8, n_heads=2, context=8, vocab_size=257, dropout=0.5)


def test_sample_is_a_function_of_seed_and_step_and_touches_no_stream() -> None:
    model, tokenizer = build(CONFIG, 1).train(), byte_tokenizer()
    settings = TrainConfig(sample_tokens=30, seed=5)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    texts = [write_sample(model, tokenizer, step, settings) for step in (10, 10, 20)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.training


def test_vocabulary_without_the_prompt_still_gives_a_sample() -> None:
    tokenizer = char_tokenizer("abc", end_of_text=False)
    model = build(ModelConfig(n_layers=1, d_model=8, n_heads=2, context=4, vocab_size=3), 1)
    text = write_sample(model, tokenizer, 1, TrainConfig(sample_tokens=20, sample_prompt="\n"))
    assert len(text) == 20
    assert set(text) <= set("abc")


def test_prompt_longer_than_the_context_is_cropped() -> None:
    tokenizer = byte_tokenizer()
    text = write_sample(build(CONFIG, 1), tokenizer, 1, TrainConfig(sample_tokens=5, sample_prompt="x" * 100))
    assert isinstance(text, str)
