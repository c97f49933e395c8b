import dataclasses
import json
import re
import weakref

import numpy as np
import pytest
import safetensors

from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.interop import (
    StoredModel,
    Written,
    open_model,
    read_directory,
    write_description,
    write_directory,
    write_stored,
    write_weights_file,
)
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, char_tokenizer


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def stored(folder):
    with safetensors.safe_open(folder / "model.safetensors", "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - not a dict


@pytest.fixture
def letters():
    return char_tokenizer("abcd", end_of_text=True)


def test_the_five_files_of_a_model_are_written(tmp_path, tiny, random_weights, letters):
    config = tiny["gpt2"]
    written = write_directory(tmp_path / "new", config, random_weights(config), letters)
    assert written == Written(family="gpt2", reason="")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert Tokenizer.load(tmp_path / "new").fingerprint == letters.fingerprint
    assert read_json(tmp_path / "new" / "tokenizer_config.json")["model_max_length"] == config.context
    for name in ("config.json", "generation_config.json"):
        fields = read_json(tmp_path / "new" / name)
        assert fields["bos_token_id"] == fields["eos_token_id"] == letters.end_of_text


def test_a_model_without_family_is_written_natively_and_said_so(tmp_path, tiny, random_weights):
    weights = random_weights(tiny["nextok"])
    written = write_directory(tmp_path, tiny["nextok"], weights)
    assert written.family == "nextok"
    assert "norm_placement = 'after' and no logit_softcap = 30.0" in written.reason
    assert read_json(tmp_path / "config.json")["model_type"] == "nextok"
    assert set(stored(tmp_path)[0]) == set(weights)


def test_the_square_projection_is_stored_turned(tmp_path, random_weights):
    config = ModelConfig(d_model=64, n_heads=4, n_layers=1, vocab_size=5)
    weights = random_weights(config)
    write_directory(tmp_path, config, weights)
    tensors, metadata = stored(tmp_path)
    assert np.array_equal(tensors["transformer.h.0.attn.c_proj.weight"], weights["blocks.0.attn.out.weight"].T)
    assert metadata == {"format": "pt"}


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_tied_head_is_stored_once(family, tmp_path, tiny, random_weights):
    write_directory(tmp_path, tiny[family], random_weights(tiny[family]))
    assert not any("head" in name for name in stored(tmp_path)[0])
    assert read_json(tmp_path / "config.json")["tie_word_embeddings"] is True


def test_weights_that_are_one_array_are_stored_under_each_name(tmp_path, tiny, random_weights):
    config = tiny["gpt2"]
    weights = random_weights(config)
    weights["blocks.1.attn.out.weight"] = weights["blocks.0.attn.out.weight"]
    write_directory(tmp_path, config, weights)
    assert np.array_equal(read_directory(tmp_path)[1]["blocks.1.attn.out.weight"], weights["blocks.0.attn.out.weight"])
    assert {"transformer.h.0.attn.c_proj.weight", "transformer.h.1.attn.c_proj.weight"} <= set(stored(tmp_path)[0])


def test_a_gpt2_without_biases_is_stored_with_zeros(tmp_path, random_weights):
    config = ModelConfig(n_layers=1, bias=False, vocab_size=5)
    write_directory(tmp_path, config, random_weights(config))
    biases = {name: array for name, array in stored(tmp_path)[0].items() if name.endswith(".bias")}
    assert len(biases) == 6 + 1  # of the block and of the final norm
    assert not any(array.any() for array in biases.values())


def test_wider_weights_are_stored_in_float32(tmp_path, tiny, random_weights):
    weights = {name: array.astype(np.float64) for name, array in random_weights(tiny["llama"]).items()}
    write_directory(tmp_path, tiny["llama"], weights)
    assert {array.dtype for array in stored(tmp_path)[0].values()} == {np.dtype(np.float32)}


def test_weights_alone_can_be_replaced(tmp_path, tiny, random_weights):
    config = tiny["qwen3"]
    write_description(tmp_path, config)
    described = (tmp_path / "config.json").read_bytes()
    for seed in (1, 2):
        write_weights_file(tmp_path, config, random_weights(config, seed))
        got = read_directory(tmp_path)[1]
        assert all(np.array_equal(got[name], array) for name, array in random_weights(config, seed).items())
    assert (tmp_path / "config.json").read_bytes() == described


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {"do_sample": True, "top_k": 0}),
        ({"temperature": 0.8, "top_k": 40}, {"do_sample": True, "temperature": 0.8, "top_k": 40}),
        ({"temperature": 0.0, "top_k": 40}, {"do_sample": False}),
        ({"do_sample": False, "repetition_penalty": 1.2}, {"do_sample": False, "repetition_penalty": 1.2}),
    ],
)
def test_sampling_options_say_whether_peers_sample(tmp_path, tiny, options, expected):
    write_description(tmp_path, tiny["gpt2"], generation=options)
    written = read_json(tmp_path / "generation_config.json")
    assert written == {"bos_token_id": None, "eos_token_id": None} | expected


def test_an_unknown_sampling_option_is_refused_with_the_nearest(tmp_path, tiny):
    with pytest.raises(ConfigError, match="Did you mean 'temperature'"):
        write_description(tmp_path, tiny["gpt2"], generation={"temprature": 1.0})


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused_and_nothing_written(tmp_path, random_weights, letters):
    config = ModelConfig(vocab_size=letters.vocab_size - 1)
    with pytest.raises(TokenizerError, match="embedding rows"):
        write_directory(tmp_path, config, random_weights(config), letters)
    assert not list(tmp_path.iterdir())


def test_an_embedding_padded_beyond_the_tokenizer_is_kept_whole(tmp_path, random_weights, letters):
    config = ModelConfig(vocab_size=64)
    write_directory(tmp_path, config, random_weights(config), letters)
    assert read_directory(tmp_path)[0].vocab_size == 64


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda weights: weights.pop("final_norm.bias"), "final_norm.bias is missing"),
        (lambda weights: weights.update({"head.weight": weights["embed.tokens.weight"]}), "head.weight is unexpected"),
        (lambda weights: weights.update({"final_norm.bias": np.zeros(3)}), "final_norm.bias has shape [3], not [12]"),
    ],
)
def test_weights_of_another_model_are_refused_and_nothing_written(tmp_path, tiny, random_weights, change, told):
    weights = random_weights(tiny["gpt2"])
    change(weights)
    with pytest.raises(CheckpointError, match=re.escape(told)):
        write_directory(tmp_path, tiny["gpt2"], weights)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "nextok"])
def test_a_stored_model_passes_through_to_the_same_files(family, tmp_path, tiny, random_weights, letters):
    config = dataclasses.replace(tiny[family], vocab_size=letters.vocab_size)
    write_directory(tmp_path / "a", config, random_weights(config), letters, {"temperature": 0.5})
    assert write_stored(tmp_path / "b", open_model(tmp_path / "a"), {"temperature": 0.5}).family == family
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()


def test_weights_are_let_go_before_the_next_one_is_asked_for(tmp_path, tiny, random_weights):
    weights, earlier, alive = random_weights(tiny["llama"]), [], []

    def arrays():
        for name, weight in weights.items():
            alive.append(sum(reference() is not None for reference in earlier))
            array = weight.copy()
            earlier.append(weakref.ref(array))
            yield name, array
            del array

    write_stored(tmp_path, StoredModel(config=tiny["llama"], arrays=arrays()))
    assert alive == [0] * len(weights)


def test_a_stored_model_that_breaks_off_leaves_no_file(tmp_path, tiny, random_weights):
    def arrays():
        yield from list(random_weights(tiny["gpt2"]).items())[:3]
        raise CheckpointError("cut short")

    with pytest.raises(CheckpointError, match="cut short"):
        write_stored(tmp_path, StoredModel(config=tiny["gpt2"], arrays=arrays()))
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_the_description_is_found_before_a_weight_is_read(tmp_path, random_weights, letters):
    def arrays():
        raise AssertionError("read")
        yield

    stored = StoredModel(config=ModelConfig(vocab_size=2), arrays=arrays(), tokenizer=letters)
    with pytest.raises(TokenizerError, match="embedding rows"):
        write_stored(tmp_path, stored)
    with pytest.raises(ConfigError, match="temprature"):
        write_stored(tmp_path, dataclasses.replace(stored, tokenizer=None), {"temprature": 1.0})
    assert not list(tmp_path.iterdir())
