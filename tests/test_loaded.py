"""The Python face: one object with model, tokenizer, logits, text and traces."""

from pathlib import Path

import numpy as np
import pytest
import torch

import nextok
from nextok.errors import CheckpointError, ConfigError, InputError, UnknownCharacterError
from nextok.interop import write_directory
from nextok.model import GPT, TorchDecoder, build, weight_arrays
from nextok.spec import ModelConfig, preset_config
from nextok.tokenizer import byte_tokenizer, char_tokenizer

CONFIG = ModelConfig(n_layers=2, d_model=16, n_heads=2, context=12, vocab_size=257)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = build(CONFIG, 1)
    write_directory(tmp_path, CONFIG, weight_arrays(model), byte_tokenizer())
    return tmp_path


def test_logits_are_those_of_the_model_for_text_and_ids(folder: Path) -> None:
    loaded = nextok.load(folder)
    logits_TV = loaded.logits("hello")
    assert logits_TV.shape == (5, 257)
    assert logits_TV.dtype == np.float32
    np.testing.assert_array_equal(logits_TV, loaded.logits(list(b"hello")))
    expected = build(CONFIG, 1)(torch.tensor([list(b"hello")]))[0].detach().numpy()
    np.testing.assert_allclose(logits_TV, expected, atol=1e-6)
    assert loaded.config == CONFIG


def test_generation_streams_and_batches_give_the_same_text(folder: Path) -> None:
    loaded = nextok.load(folder)
    one = loaded.generate("abc", max_new_tokens=6, seed=3)
    assert one.prompt_ids == tuple(b"abc")
    events = list(loaded.stream("abc", max_new_tokens=6, seed=3))
    assert tuple(event.id for event in events) == one.ids
    assert "".join(event.text for event in events) == one.text
    both = loaded.generate_all(["abc", "zz"], max_new_tokens=6, seed=3, n=2)
    assert [len(choices) for choices in both] == [2, 2]
    assert (both[0][0].ids, both[0][0].text) == (one.ids, one.text)
    np.testing.assert_allclose(both[0][0].logprobs, one.logprobs, atol=1e-4)  # rows of a product round differently


def test_trace_gives_named_values_of_one_prompt(folder: Path) -> None:
    traced = nextok.load(folder).trace("abcd", ["blocks.*.attn.pattern", "logits"])
    assert list(traced) == ["blocks.0.attn.pattern", "blocks.1.attn.pattern", "logits"]
    assert traced["blocks.0.attn.pattern"].shape == (2, 4, 4)
    np.testing.assert_allclose(traced["blocks.0.attn.pattern"].sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(traced["logits"], nextok.load(folder).logits("abcd"), atol=1e-6)


def test_what_cannot_be_done_is_said(folder: Path, tmp_path: Path) -> None:
    loaded = nextok.load(folder)
    with pytest.raises(InputError, match="13 tokens; it takes 1 to 12"):
        loaded.logits("x" * 13)
    with pytest.raises(ConfigError, match="Unknown option 'temprature'.*"):
        loaded.generate("a", temprature=1.0)
    with pytest.raises(ConfigError, match="one continuation, not n = 3"):
        loaded.generate("a", n=3)
    with pytest.raises(ConfigError, match="no hook point"):
        loaded.trace("a", ["blocks.9.attn.pattern"])
    with pytest.raises(CheckpointError):
        nextok.load(tmp_path / "absent")
    with pytest.raises(AttributeError):
        nextok.no_such_name  # noqa: B018


def test_unknown_characters_are_refused_dropped_or_replaced_in_every_method(tmp_path: Path) -> None:
    write_directory(tmp_path, CONFIG, weight_arrays(build(CONFIG, 1)), char_tokenizer("ab ?", end_of_text=False))
    loaded = nextok.load(tmp_path)
    with pytest.raises(UnknownCharacterError):
        loaded.ids("aZb")
    for unknown, same in (("drop", "ab"), ("replace", "a?b")):
        np.testing.assert_array_equal(loaded.ids("aZb", unknown=unknown), loaded.ids(same))
        np.testing.assert_array_equal(loaded.logits("aZb", unknown=unknown), loaded.logits(same))
        traced = loaded.trace("aZb", ["logits"], unknown=unknown)["logits"]
        np.testing.assert_array_equal(traced, loaded.logits(same))
        one = loaded.generate("aZb", unknown=unknown, max_new_tokens=3)
        assert one == loaded.generate(same, max_new_tokens=3)
        streamed = loaded.stream("aZb", unknown=unknown, max_new_tokens=3)
        assert tuple(event.id for event in streamed) == one.ids


@pytest.mark.parametrize(("n_prompts", "n", "slots"), [(1, 1, 1), (1, 3, 3), (2, 1, 2), (3, 2, 4), (0, 1, 1)])
def test_no_more_caches_are_made_than_there_are_continuations(
    folder: Path, monkeypatch: pytest.MonkeyPatch, n_prompts: int, n: int, slots: int
) -> None:
    made = []

    class Watched(TorchDecoder):
        def __init__(self, model: GPT, n_slots: int = 1) -> None:
            made.append(n_slots)
            super().__init__(model, n_slots)

    monkeypatch.setattr("nextok.loaded.TorchDecoder", Watched)
    found = nextok.load(folder).generate_all(["ab"] * n_prompts, n=n, max_new_tokens=1)
    assert made == [slots]
    assert [len(choices) for choices in found] == [n] * n_prompts


def test_model_without_a_tokenizer_takes_ids(tmp_path: Path) -> None:
    config = preset_config("lesson-a")
    write_directory(tmp_path, config, weight_arrays(build(config, 42)))
    loaded = nextok.load(tmp_path)
    found = loaded.generate([5, 12, 3], max_new_tokens=5, temperature=0)
    assert found.ids == (42, 2, 38, 35, 35)
    with pytest.raises(ConfigError, match="no tokenizer.json"):
        loaded.logits("text")
