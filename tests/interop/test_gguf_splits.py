import numpy as np
import pytest

from nextok.interop.gguf_out import write_gguf
from nextok.interop.gguf_splits import BYTES, SPLITS
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import Tokenizer, gpt2_tokenizer, train_bpe

from .gguf_peers import TEXTS, LlamaCpp

pytest.importorskip("gguf")


def with_split(tokenizer, name):
    """Returns the tokenizer with another way to cut words."""
    split, content = SPLITS[name], tokenizer.content()
    content |= {"pre_tokenizer": dict(split.pre_tokenizer), "normalizer": split.normalizer, "decoder": dict(BYTES)}
    content["model"]["ignore_merges"] = split.ignore_merges
    return Tokenizer.of(content, None)


@pytest.mark.parametrize("name", SPLITS)
def test_llama_cpp_cuts_words_the_same_way(name, tmp_path):
    tokenizer = with_split(train_bpe(["".join(TEXTS) * 2 + " the 12 345 6789 there!!! it's\n\n  a"] * 2, 600), name)
    config = ModelConfig(n_layers=1, d_model=4, n_heads=1, context=8, vocab_size=tokenizer.vocab_size)
    weights = {each: np.zeros(shape, np.float32) for each, shape in parameter_shapes(config).items()}
    write_gguf(tmp_path / "a.gguf", config, weights, tokenizer)
    peer = LlamaCpp(tmp_path / "a.gguf")
    for text in TEXTS:
        assert peer.ids(text) == tokenizer.encode(text).tolist(), text


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITS)
def test_llama_cpp_gives_the_ids_of_real_text(name, tmp_path, shared_data):
    encoder, merges = shared_data("gpt2_encoder.json"), shared_data("gpt2_vocab.bpe")
    tokenizer = with_split(gpt2_tokenizer(encoder=encoder, merges=merges), name)
    config = ModelConfig(n_layers=1, d_model=4, n_heads=1, context=8, vocab_size=tokenizer.vocab_size)
    weights = {each: np.zeros(shape, np.float32) for each, shape in parameter_shapes(config).items()}
    write_gguf(tmp_path / "a.gguf", config, weights, tokenizer)
    peer = LlamaCpp(tmp_path / "a.gguf")
    for text in [*TEXTS, shared_data("tinyshakespeare.txt").read_text("utf-8")[:50_000]]:
        assert peer.ids(text) == tokenizer.encode(text).tolist(), text[:80]


def test_the_words_of_each_split_are_the_characters_of_the_text():
    tokenizer = train_bpe(["a text"], 300)
    for name in SPLITS:
        for text in TEXTS:
            cut = with_split(tokenizer, name)
            assert cut.decode(cut.encode(text)) == text, name


@pytest.mark.parametrize(("name", "words"), [("smollm", [1, 1, 1, 1]), ("qwen2", [1] * 4), ("llama-bpe", [3, 1])])
def test_digits_are_cut_as_the_models_were_trained(name, words):
    library = with_split(train_bpe(["a"], 257), name)._library
    assert [len(word) for word, _ in library.pre_tokenizer.pre_tokenize_str("1234")] == words
