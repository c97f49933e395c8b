"""The generated text is what it says, never twice the same window of it, and a model learns it in seconds."""

import math

import torch

from nextok.lessons import sentences
from nextok.spec import ModelConfig


def test_text_is_a_function_of_its_seed() -> None:
    assert sentences.write(20, seed=1) == sentences.write(20, seed=1)
    assert sentences.write(20, seed=1) != sentences.write(20, seed=2)


def test_every_sentence_has_the_one_form() -> None:
    for line in sentences.write(300, seed=3).splitlines():
        words = line.split()
        assert len(words) == 7
        for article, adjective in (words[:2], words[4:6]):
            assert article == "the" or article == ("an" if adjective[0] in "aeiou" else "a")


def test_the_tokenizer_has_every_character_of_any_text() -> None:
    text = sentences.write(500, seed=9)
    assert sentences.tokenizer().decode(sentences.tokenizer().encode(text)) == text


def test_windows_are_stretches_of_the_text() -> None:
    text = sentences.write(400, seed=5)
    for ids_T in sentences.windows(8, seed=5):
        assert len(ids_T) == sentences.CONTEXT + 1
        assert sentences.tokenizer().decode(ids_T.tolist()) in text


def test_training_is_a_function_of_its_arguments_and_leaves_torchs_generator() -> None:
    config = ModelConfig(
        n_layers=1, d_model=8, n_heads=1, context=8, vocab_size=sentences.tokenizer().vocab_size, init="torch"
    )
    state = torch.random.get_rng_state()
    first, second = (sentences.train(config, steps=5, lr=1e-2, batch_size=4).losses for _ in range(2))
    assert first == second
    assert len(first) == 5
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_small_models_learn_far_below_guessing() -> None:
    guessing = math.log(sentences.tokenizer().vocab_size)
    for trained in (sentences.small_gpt(), sentences.small_cheat()):
        assert trained.losses[-1] < guessing / 4
    assert sentences.small_gpt().model.config.mask == "causal"
    assert sentences.small_cheat().model.config.mask == "none"
