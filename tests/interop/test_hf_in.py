import dataclasses
import json
import time

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import CheckpointError
from nextok.interop import read_directory, write_directory, write_weights_file
from nextok.spec import ModelConfig

FAMILIES = ["gpt2", "llama", "qwen3", "nextok"]


@pytest.fixture
def written(tmp_path, tiny, random_weights):
    """Returns what writes the small model of a family and gives its folder."""

    def write(family):
        write_directory(tmp_path, tiny[family], random_weights(tiny[family]))
        return tmp_path

    return write


def change_tensors(folder, change):
    """Rewrites the weights as the dictionary that `change` makes of them."""
    path = folder / "model.safetensors"
    tensors = {name: array.copy() for name, array in safetensors.numpy.load_file(path).items()}
    safetensors.numpy.save_file(change(tensors) or tensors, path, {"format": "pt"})


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), encoding="utf-8")


def assert_same(got, expected):
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert got[name].dtype == np.float32
        assert got[name].shape == array.shape
        assert got[name].tobytes() == array.tobytes(), name


@st.composite
def configs(draw):
    heads = draw(st.integers(1, 4))
    return ModelConfig(
        n_layers=draw(st.integers(1, 2)),
        n_heads=heads,
        n_kv_heads=draw(st.sampled_from([each for each in range(1, heads + 1) if heads % each == 0])),
        d_model=heads * draw(st.integers(1, 2)) * 2,
        d_head=draw(st.sampled_from([0, 2, 6])),
        d_ff=draw(st.integers(0, 9)),
        context=draw(st.integers(1, 9)),
        vocab_size=draw(st.integers(1, 9)),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        norm_eps=draw(st.floats(1e-12, 0.1)),
        norm_placement=draw(st.sampled_from(["before", "before", "before", "after"])),
        position=draw(st.sampled_from(["learned", "rope"])),
        rope_base=draw(st.floats(1.5, 1e7)),
        mlp=draw(st.sampled_from(["gelu", "gelu_tanh", "relu", "relu2", "swiglu"])),
        qk_norm=draw(st.booleans()),
        bias=draw(st.booleans()),
        tied_head=draw(st.booleans()),
        logit_softcap=draw(st.sampled_from([0.0, 0.0, 15.0])),
        dropout=draw(st.floats(0, 0.9)),
        mask=draw(st.sampled_from(["causal", "causal", "none"])),
        init=draw(st.sampled_from(["gpt2", "torch"])),
    )


@st.composite
def configs_of_a_family(draw):
    """The same, steered so that most models are of a family."""
    config = draw(configs())
    block = draw(
        st.sampled_from(
            [
                {
                    "norm": "layernorm",
                    "position": "learned",
                    "mlp": "gelu",
                    "qk_norm": False,
                    "n_kv_heads": 0,
                    "d_head": 0,
                },
                {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "qk_norm": False},
                {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "qk_norm": True, "bias": False},
            ]
        )
    )
    return dataclasses.replace(config, norm_placement="before", logit_softcap=0.0, mask="causal", **block)


@given(config=st.one_of(configs(), configs_of_a_family()))
@settings(max_examples=80, deadline=None)
def test_whatever_is_written_is_read_back_bit_for_bit(config, random_weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    weights = random_weights(config)
    write_directory(folder, config, weights)
    read_config, read_weights = read_directory(folder)
    assert read_config == config
    assert_same(read_weights, weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_read_is_contiguous_and_the_callers_own(family, written):
    folder = written(family)
    _, weights = read_directory(folder)
    before = {name: array.copy() for name, array in weights.items()}
    change_tensors(folder, lambda tensors: {name: array + 1 for name, array in tensors.items()})
    assert_same(weights, before)
    for array in weights.values():
        assert array.flags.c_contiguous
        assert array.flags.owndata
        array += 1  # writable


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_half_precision_is_widened_exactly(family, dtype, written, tiny, random_weights):
    folder = written(family)
    path = folder / "model.safetensors"
    halves = {name: tensor.to(dtype) for name, tensor in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(halves, path)
    expected = {
        name: torch.from_numpy(array).to(dtype).float().numpy() for name, array in random_weights(tiny[family]).items()
    }
    assert_same(read_directory(folder)[1], expected)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda name: f"_orig_mod.module.{name}",
        lambda name: f"module._orig_mod.module.{name}",
        lambda name: name.removeprefix("transformer.").removeprefix("model."),
        lambda name: f"_orig_mod.{name.removeprefix('transformer.').removeprefix('model.')}",
        lambda name: f"model.{name}",
        lambda name: name.replace(".0.", ".0._orig_mod."),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_wrapped_names_give_the_same_model(family, wrapped, written, tiny, random_weights):
    folder = written(family)
    change_tensors(folder, lambda tensors: {wrapped(name): array for name, array in tensors.items()})
    assert_same(read_directory(folder)[1], random_weights(tiny[family]))


def test_one_tensor_under_two_names_is_refused(written):
    folder = written("gpt2")
    change_tensors(
        folder, lambda tensors: tensors | {"module.transformer.ln_f.bias": tensors["transformer.ln_f.bias"] + 1}
    )
    with pytest.raises(CheckpointError, match=r"holds 'ln_f\.bias' twice"):
        read_directory(folder)


def test_mask_buffers_are_passed_over(written, tiny, random_weights):
    folder = written("gpt2")
    change_tensors(
        folder,
        lambda tensors: (
            tensors
            | {f"transformer.h.{i}.attn.bias": np.tril(np.ones((1, 1, 10, 10), np.uint8)) for i in range(2)}
            | {f"transformer.h.{i}.attn.masked_bias": np.array(-1e4, np.float32) for i in range(2)}
        ),
    )
    assert_same(read_directory(folder)[1], random_weights(tiny["gpt2"]))


@pytest.mark.parametrize("extra", ["transformer.h.0.attn.biases", "transformer.h.0.xattn_bias", "score.weight"])
def test_an_unexpected_tensor_is_refused_by_name(written, extra):
    folder = written("gpt2")
    change_tensors(folder, lambda tensors: tensors | {extra: np.zeros(3, np.float32)})
    with pytest.raises(CheckpointError, match=f"holds unexpected {extra}"):
        read_directory(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_missing_tensor_is_refused_by_name(family, written):
    folder = written(family)
    whole = safetensors.numpy.load_file(folder / "model.safetensors")
    for name in list(whole)[::3]:
        change_tensors(folder, lambda _, left_out=name: {key: whole[key] for key in whole if key != left_out})
        plain = name.removeprefix("transformer.").removeprefix("model.")
        with pytest.raises(CheckpointError, match=f"lacks {plain}"):
            read_directory(folder)


def test_many_wrong_names_are_counted(written):
    folder = written("gpt2")
    change_tensors(folder, lambda tensors: {f"encoder.{name}": array for name, array in tensors.items()})
    with pytest.raises(
        CheckpointError, match=r"lacks wte\.weight, .* and \d+ more and holds unexpected .* and \d+ more"
    ):
        read_directory(folder)


def test_another_shape_is_refused_with_both(written):
    folder = written("gpt2")
    change_tensors(
        folder, lambda tensors: tensors | {"transformer.h.1.mlp.c_fc.weight": np.zeros((48, 12), np.float32)}
    )
    with pytest.raises(CheckpointError, match=r"h\.1\.mlp\.c_fc\.weight .* shape \[48, 12\]; .* \[12, 48\]"):
        read_directory(folder)


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_another_dtype_is_refused_by_name(written, dtype):
    folder = written("llama")
    change_tensors(folder, lambda tensors: tensors | {"model.norm.weight": np.ones(12, dtype)})
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight .* dtype (I8|F64); known: F32, F16, BF16"):
        read_directory(folder)


def test_a_head_of_its_own_may_not_be_missing(written):
    folder = written("llama")
    change_config(folder, tie_word_embeddings=False)
    with pytest.raises(CheckpointError, match=r"lacks lm_head\.weight"):
        read_directory(folder)


@pytest.mark.parametrize(("family", "embedding"), [("gpt2", "transformer.wte"), ("llama", "model.embed_tokens")])
def test_a_tied_head_that_is_stored_too_has_to_be_the_embedding(family, embedding, written, tiny, random_weights):
    folder = written(family)
    change_tensors(folder, lambda tensors: tensors | {"lm_head.weight": tensors[f"{embedding}.weight"].copy()})
    assert_same(read_directory(folder)[1], random_weights(tiny[family]))
    change_tensors(folder, lambda tensors: tensors | {"lm_head.weight": tensors["lm_head.weight"] + 1})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight .* differs from the embedding"):
        read_directory(folder)


def test_biases_learned_elsewhere_are_kept(tmp_path, tiny, random_weights):
    config = dataclasses.replace(tiny["gpt2"], bias=False)
    write_directory(tmp_path, config, random_weights(config))
    name = "transformer.h.1.attn.c_attn.bias"
    change_tensors(tmp_path, lambda tensors: tensors | {name: np.arange(36, dtype=np.float32)})
    read_config, weights = read_directory(tmp_path)
    assert read_config == tiny["gpt2"]
    assert np.array_equal(weights["blocks.1.attn.qkv.bias"], np.arange(36))
    assert not weights["blocks.0.attn.qkv.bias"].any()


def shard(folder, files):
    """Cuts the weights into as many files, every other tensor to the next, and returns the index that lists them."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "whole")
    mapping = {name: f"model-{i % files + 1:05}-of-{files:05}.safetensors" for i, name in enumerate(tensors)}
    for file in set(mapping.values()):
        own = {name: array.copy() for name, array in tensors.items() if mapping[name] == file}
        safetensors.numpy.save_file(own, folder / file, {"format": "pt"})
    (folder / "whole").unlink()
    write_index(folder, mapping)
    return mapping


def write_index(folder, mapping):
    content = {"metadata": {"total_size": 1}, "weight_map": mapping}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("family", FAMILIES)
def test_shards_give_the_same_model(family, written, tiny, random_weights):
    folder = written(family)
    shard(folder, 3)
    assert_same(read_directory(folder)[1], random_weights(tiny[family]))


@pytest.mark.parametrize(
    "path",
    [
        "../a.safetensors",
        "/elsewhere/a.safetensors",
        "b/a.safetensors",
        "b\\a.safetensors",
        "..",
        "",
        "a\0.safetensors",
        3,
    ],
)
def test_a_shard_outside_the_folder_is_refused(written, path):
    folder = written("gpt2")
    mapping = shard(folder, 1)
    write_index(folder, mapping | {next(iter(mapping)): path})
    with pytest.raises(CheckpointError, match="not a file name in its folder"):
        read_directory(folder)


def test_a_missing_shard_and_a_false_index_are_refused_by_name(written):
    folder = written("gpt2")
    mapping = shard(folder, 2)
    name, file = next(iter(mapping.items()))
    other = next(each for each in mapping.values() if each != file)
    write_index(folder, mapping | {name: other})
    with pytest.raises(CheckpointError, match=f"says that {other} holds '{name}', which it does not"):
        read_directory(folder)
    write_index(folder, mapping)
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=file):
        read_directory(folder)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_cut_file_is_refused(written, kept):
    folder = written("gpt2")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="cut short"):
        read_directory(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_a_pickle_is_refused_unopened_with_the_way_to_convert_it(written, name):
    folder = written("gpt2")
    (folder / "model.safetensors").rename(folder / name)  # opening it would be another error
    with pytest.raises(CheckpointError, match=name) as caught:
        read_directory(folder)
    assert "pickle" in caught.value.message
    assert "save_pretrained" in caught.value.hint


def test_missing_files_are_refused_by_name(written, tmp_path):
    with pytest.raises(CheckpointError, match="There is no folder"):
        read_directory(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        read_directory(tmp_path)
    folder = written("gpt2")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        read_directory(folder)


def test_an_absurd_number_of_layers_costs_nothing(written):
    folder = written("gpt2")
    change_config(folder, n_layer=10**12)
    started = time.perf_counter()
    with pytest.raises(CheckpointError, match="says 1000000000000 layers"):
        read_directory(folder)
    assert time.perf_counter() - started < 1


def test_a_config_of_another_model_is_refused(written, tiny, random_weights):
    folder = written("llama")
    write_weights_file(folder, tiny["gpt2"], random_weights(tiny["gpt2"]))
    with pytest.raises(CheckpointError, match=r"do not fit its config\.json"):
        read_directory(folder)
