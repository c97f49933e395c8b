"""The Python face: one object with model, tokenizer, logits, text and traces."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import nextok
from nextok.engine import PRECISIONS
from nextok.errors import CheckpointError, ConfigError, InputError, UnknownCharacterError
from nextok.interop import write_directory
from nextok.model import GPT, TorchDecoder, build, weight_arrays
from nextok.spec import ModelConfig, preset_config
from nextok.tokenizer import byte_tokenizer, char_tokenizer

CONFIG = ModelConfig(n_layers=2, d_model=16, n_heads=2, context=12, vocab_size=257)

BACKENDS = ("torch", "numba")
DECODERS = {"torch": "TorchDecoder", "numba": "NumbaDecoder"}


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

    monkeypatch.setattr("nextok.model.TorchDecoder", Watched)
    found = nextok.load(folder, backend="torch").generate_all(["ab"] * n_prompts, n=n, max_new_tokens=1)
    assert made == [slots]
    assert [len(choices) for choices in found] == [n] * n_prompts


def test_model_without_a_tokenizer_takes_ids(tmp_path: Path) -> None:
    config = preset_config("lesson-a")
    write_directory(tmp_path, config, weight_arrays(build(config, 42)))
    loaded = nextok.load(tmp_path)
    found = loaded.generate([5, 12, 3], max_new_tokens=5, temperature=0)
    assert found.ids == (42, 2, 38, 35, 35)
    with pytest.raises(ConfigError, match="has no tokenizer"):
        loaded.logits("text")


def test_guessing_ahead_changes_no_text(folder: Path, tmp_path: Path) -> None:
    loaded, smaller = nextok.load(folder), nextok.LoadedModel.of(build(CONFIG, 2), byte_tokenizer())
    options = {"max_new_tokens": 8, "seed": 3, "overflow": "half"}
    wanted = loaded.generate("ababab", **options)
    for guesser in ("ngram", smaller):
        assert loaded.generate("ababab", speculate=guesser, **options).ids == wanted.ids
        events = list(loaded.stream("ababab", speculate=guesser, **options))
        assert "".join(event.text for event in events) == wanted.text
        ((first, second),) = loaded.generate_all(["ababab"], n=2, speculate=guesser, **options)
        assert first.ids == wanted.ids != second.ids


def test_a_guesser_of_another_kind_is_refused(folder: Path) -> None:
    loaded = nextok.load(folder)
    other = nextok.LoadedModel.of(build(CONFIG, 2), char_tokenizer("abc", end_of_text=False))
    for guesser in (other, nextok.LoadedModel.of(build(CONFIG, 2), None)):
        with pytest.raises(ConfigError, match="another tokenizer"):
            loaded.generate("a", speculate=guesser)
    with pytest.raises(ConfigError, match="speculate = 'bigram'"):
        loaded.generate("a", speculate="bigram")
    smaller = build(ModelConfig(n_layers=1, d_model=16, n_heads=2, context=12, vocab_size=9), 0)
    with pytest.raises(ConfigError, match="another tokenizer"):
        nextok.LoadedModel.of(build(CONFIG, 1), None).generate([1], speculate=nextok.LoadedModel.of(smaller, None))
    same = nextok.LoadedModel.of(build(CONFIG, 2), None)
    assert nextok.LoadedModel.of(build(CONFIG, 1), None).generate([1], speculate=same, max_new_tokens=3).ids


def test_beams_find_a_text_no_less_likely_than_the_greedy_one(folder: Path) -> None:
    loaded = nextok.load(folder)
    greedy = loaded.generate("ab", temperature=0, max_new_tokens=4)
    beams = loaded.beam_search("ab", n_beams=6, n_best=2, max_new_tokens=4, length_penalty=0.0)
    assert [beam.score for beam in beams] == sorted((beam.score for beam in beams), reverse=True)
    assert beams[0].score == pytest.approx(sum(beams[0].generation.logprobs))
    assert beams[0].score >= sum(greedy.logprobs) - 1e-5
    with pytest.raises(ConfigError, match="Unknown option 'beams'"):
        loaded.beam_search("ab", beams=2)


def test_text_of_a_given_form(folder: Path) -> None:
    generation = nextok.load(folder).generate("ab", regex="[xy]{2}z", max_new_tokens=8)
    assert generation.finish_reason == "stop"
    assert generation.text[2:] == "z"
    assert set(generation.text[:2]) <= {"x", "y"}


# --- backends and precisions


def test_both_backends_write_the_same_text(folder: Path) -> None:
    texts = [nextok.load(folder, backend=backend).generate("abc", seed=1, max_new_tokens=8) for backend in BACKENDS]
    assert texts[0].ids == texts[1].ids
    np.testing.assert_allclose(texts[0].logprobs, texts[1].logprobs, atol=1e-4)


def test_auto_takes_what_was_measured_and_remembers_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def choose(config: ModelConfig, makers: dict, record: Path) -> str:
        asked.append((config, sorted(makers), record.name))
        assert {name: type(make()).__name__ for name, make in makers.items()} == DECODERS
        return "numba"

    monkeypatch.setattr("nextok.loaded.fastest", choose)
    assert type(nextok.load(folder).decoder()).__name__ == "NumbaDecoder"
    assert asked == [(CONFIG, ["numba", "torch"], "backends.json")]


def test_a_model_that_was_taken_out_decodes_as_it_was_changed(folder: Path) -> None:
    loaded = nextok.load(folder)
    before = loaded.generate("abc", temperature=0, max_new_tokens=4).ids
    with torch.no_grad():
        loaded.model.embed.tokens.weight.neg_()
    assert loaded.generate("abc", temperature=0, max_new_tokens=4).ids != before


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_is_near_the_model(folder: Path, precision: str) -> None:
    exact, found = nextok.load(folder).logits("hello"), nextok.load(folder, precision=precision).logits("hello")
    assert found.dtype == np.float32
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.2 * exact.std()


def test_int8_is_the_engine_s_alone(folder: Path) -> None:
    with pytest.raises(ConfigError, match="torch does not decode in int8"):
        nextok.load(folder, backend="torch", precision="int8")
    assert type(nextok.load(folder, precision="int4").decoder(3)).__name__ == "NumbaDecoder"


def test_decoding_needs_no_torch(folder: Path) -> None:
    source = (
        "import sys, nextok; nextok.load(sys.argv[1], backend='numba').generate('abc', max_new_tokens=3);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source, folder], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_model_is_opened_once_and_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, measured = [], []
    open_file = nextok.loaded.open_runnable
    monkeypatch.setattr("nextok.loaded.open_runnable", lambda path: opened.append(path) or open_file(path))
    monkeypatch.setattr("nextok.loaded.fastest", lambda *_: measured.append(1) or "numba")
    loaded = nextok.load(folder)
    first = loaded.generate("abc", seed=1, max_new_tokens=4)
    assert loaded.generate("abc", seed=1, max_new_tokens=4).ids == first.ids
    assert (opened, measured) == ([folder], [1])
    loaded.trace("abc", ["logits"])  # needs the weights in another form, and reads them again
    assert opened == [folder, folder]
