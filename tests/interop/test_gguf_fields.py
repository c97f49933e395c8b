from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nextok.errors import CheckpointError, ConfigError
from nextok.interop import family_of
from nextok.interop.gguf_fields import gguf_family, read_gguf_fields, written_gguf_fields
from nextok.interop.gguf_file import ENCODINGS, GgufTensor
from nextok.spec import ModelConfig


def described(config, family, *, tensors=(), **changes):
    """Returns what the reader needs of a file that describes the model."""
    embedding = GgufTensor(shape=(config.vocab_size, config.d_model), encoding=ENCODINGS[0], begin=0)
    names = ["token_embd.weight", *tensors, *(["blk.0.attn_q.bias"] if config.bias and family == "llama" else [])]
    metadata = {"general.architecture": family, **written_gguf_fields(config, family)}
    metadata |= {name.replace("__", "."): value for name, value in changes.items()}
    return SimpleNamespace(
        path="a.gguf",
        metadata={name: value for name, value in metadata.items() if value is not None},
        tensors=dict.fromkeys(names, embedding),
        same_bytes=lambda one, other: config.tied_head,
    )


def test_every_model_that_gguf_has_is_described_and_understood(any_config):
    family, _ = family_of(any_config)
    if family == "nextok" or (family == "gpt2" and any_config.mlp != "gelu_tanh"):
        with pytest.raises(ConfigError, match="cannot be written as GGUF"):
            gguf_family(any_config)
        return
    assert gguf_family(any_config) == family
    tensors = () if any_config.tied_head else ("output.weight",)
    read = read_gguf_fields(described(any_config, family, tensors=tensors))
    assert read == (family, replace(any_config, dropout=0.0, init="gpt2"))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mlp": "gelu"}, "always the tanh GELU"),
        ({"mlp": "relu"}, "always the tanh GELU"),
        ({"norm_placement": "after"}, "norm_placement"),
        ({"logit_softcap": 1.0}, "logit_softcap"),
    ],
)
def test_a_model_that_gguf_has_not_is_refused_with_the_reason(options, reason):
    with pytest.raises(ConfigError, match=reason):
        gguf_family(ModelConfig(vocab_size=11, **options))


def test_a_head_stored_with_other_bytes_is_its_own(tiny):
    config = replace(tiny["llama"], tied_head=False)
    assert not read_gguf_fields(described(config, "llama", tensors=["output.weight"]))[1].tied_head


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "falcon"}, "architecture 'falcon'"),
        ({"general__architecture": None}, "no general.architecture"),
        ({"general__architecture": 3}, "not text"),
        ({"split__count": 2}, "llama-gguf-split"),
        ({"llama__block_count": None}, "no llama.block_count"),
        ({"llama__block_count": "2"}, "not a whole number"),
        ({"llama__attention__head_count": np.array([3, 3])}, "not a whole number"),
        ({"llama__attention__head_count": 0}, "n_heads = 0"),
        ({"llama__rope__scaling__type": "yarn"}, "'yarn'; in nextok angles are never scaled"),
        ({"llama__rope__scale_linear": 4.0}, "angles are never scaled"),
        ({"llama__rope__dimension_count": 4}, "whole heads are rotated"),
        ({"llama__attention__value_length": 4}, "values are as wide as keys"),
        ({"llama__expert_count": 8}, "no experts"),
        ({"llama__attention__sliding_window": 4096}, "the whole context"),
        ({"llama__attention__causal": False}, "itself and the past"),
        ({"llama__attention__layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon"),
        ({"llama__attention__layer_norm_rms_epsilon": -1.0}, "norm_eps"),
    ],
)
def test_what_nextok_does_not_compute_is_refused_by_name(changes, words, tiny):
    with pytest.raises(CheckpointError, match=words):
        read_gguf_fields(described(tiny["llama"], "llama", **changes))


def test_frequencies_of_their_own_are_refused(tiny):
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight"):
        read_gguf_fields(described(tiny["llama"], "llama", tensors=["rope_freqs.weight"]))


def test_gpt2_has_as_many_heads_of_keys_as_of_queries(tiny):
    with pytest.raises(CheckpointError, match="one head of keys"):
        read_gguf_fields(described(tiny["gpt2"], "gpt2", gpt2__attention__head_count_kv=1))


def test_a_file_without_an_embedding_is_no_model(tiny):
    file = described(tiny["gpt2"], "gpt2")
    file.tensors.clear()
    with pytest.raises(CheckpointError, match=r"no tensor token_embd\.weight"):
        read_gguf_fields(file)
